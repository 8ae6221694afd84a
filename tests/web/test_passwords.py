"""Tests of passwords: bcrypt runs outside the event loop, once for each right password."""

import asyncio
import time

import bcrypt
import pytest

from tests.web.certificates import hashed
from zmon.web import passwords
from zmon.web.passwords import Passwords
from zmon.web.responses import Refusal


@pytest.fixture
def checks(monkeypatch):
    """The hashes that bcrypt was asked about."""
    hashes = []
    check = bcrypt.checkpw

    def recording_check(text, known_hash):
        hashes.append(known_hash.decode())
        return check(text, known_hash)

    monkeypatch.setattr(passwords.bcrypt, "checkpw", recording_check)
    return hashes


async def ask(users, *pairs):
    """Return for each user and password whether it is right."""
    return [await users.are_right(*pair) for pair in pairs]


async def test_only_a_wrong_password_is_checked_each_time(checks):
    users = Passwords({"ann": hashed("secret")})
    right, wrong = ("ann", "secret"), ("ann", "x")
    assert await ask(users, right, right, wrong, wrong) == [True, True, False, False]
    assert len(checks) == 3  # one of the right password, two of the wrong one


async def test_unknown_user_takes_a_check_of_the_same_cost(checks):
    assert await ask(Passwords({"ann": hashed("secret", cost=5)}), ("bob", "secret")) == [False]
    assert [known_hash.split("$")[2] for known_hash in checks] == ["05"]


async def test_password_of_one_user_is_not_that_of_another():
    users = Passwords({"ann": hashed("bsecret"), "annb": hashed("other")})
    # The two names, each with the password after it, are the same text.
    assert await ask(users, ("ann", "bsecret"), ("annb", "secret")) == [True, False]


@pytest.mark.parametrize("password", ["", "pässwörd", "x" * 200, "a\udcffb"])
async def test_any_text_can_be_a_password(password):
    users = Passwords({"ann": hashed(password)})
    is_cut = len(password.encode("utf-8", "surrogateescape")) >= 72
    assert await ask(users, ("ann", password), ("ann", password + "!")) == [True, is_cut]


async def test_hash_of_apache_is_accepted():
    apache = hashed("secret").replace("$2b$", "$2y$")
    assert await ask(Passwords({"ann": apache}), ("ann", "secret")) == [True]


async def test_event_loop_goes_on_during_a_check():
    users = Passwords({"ann": hashed("secret", cost=9)})
    check = asyncio.create_task(users.are_right("ann", "secret"))
    ticks = 0
    while not check.done():
        ticks += 1
        await asyncio.sleep(0)
    assert ticks > 10


async def test_clients_that_leave_do_not_start_a_second_check_at_the_same_time(monkeypatch):
    running = most_running = 0

    def check(text, known_hash):
        nonlocal running, most_running
        running += 1
        most_running = max(most_running, running)
        time.sleep(0.02)
        running -= 1
        return False

    monkeypatch.setattr(passwords.bcrypt, "checkpw", check)
    users = Passwords({"ann": hashed("secret")})
    for _ in range(8):
        task = asyncio.create_task(users.are_right("ann", "wrong"))
        await asyncio.sleep(0.001)
        task.cancel()
    await users.are_right("ann", "wrong", "10.0.0.2")  # it waits for the checks of those that left
    assert most_running == 1


async def test_first_requests_at_the_same_time_cost_one_check(checks):
    users = Passwords({"ann": hashed("secret")})
    assert await asyncio.gather(*(users.are_right("ann", "secret") for _ in range(8))) == [True] * 8
    assert len(checks) == 1


async def test_flood_of_one_address_leaves_room_for_others(monkeypatch):
    def slow_check(text, known_hash):
        time.sleep(0.01)
        return text == b"secret"

    monkeypatch.setattr(passwords.bcrypt, "checkpw", slow_check)
    users = Passwords({"ann": hashed("secret")})
    attempts = [users.are_right("ann", f"wrong {number}", "10.0.0.1") for number in range(40)]
    right = users.are_right("ann", "secret", "10.0.0.2")
    *flooded, other = await asyncio.gather(*attempts, right, return_exceptions=True)
    assert other is True
    assert sum(isinstance(answer, Refusal) for answer in flooded) == 40 - 8  # eight checks of one address may wait
    assert await users.are_right("ann", "secret", "10.0.0.1")  # it may ask again


async def test_right_password_stays_known_over_a_reload_while_its_hash_is_the_same(checks):
    first = hashed("secret")
    before = Passwords({"ann": first})
    assert await ask(before, ("ann", "secret")) == [True]
    assert await ask(Passwords({"ann": first}, before), ("ann", "secret")) == [True]
    assert len(checks) == 1
    assert await ask(Passwords({"ann": hashed("other")}, before), ("ann", "secret")) == [False]
