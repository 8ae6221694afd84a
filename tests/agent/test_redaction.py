"""Tests of the replacement of secrets in text from a job."""

import pytest

from zmon.agent.redaction import redacted, redacted_words
from zmon.schema.rank import LastWords

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "text",
    [
        "token=SECRET",
        "HF_TOKEN: 'SECRET'",
        '{"api_key": "SECRET", "rank": 3}',
        "aws_secret_access_key = SECRET",
        "--password SECRET --steps 3",
        "Authorization: Bearer SECRET",
        "-H 'Authorization: Basic SECRET'",
        "sent Bearer SECRET to host",
        "https://ann:SECRET@host/path",
        "https://bucket/x?X-Amz-Signature=SECRET&x=1",
        "-----BEGIN RSA PRIVATE KEY-----\nSECRET\nSECRET",
    ],
)
def test_secret_beside_its_name_is_replaced(text):
    result = redacted(text.replace("SECRET", SECRET))
    assert SECRET not in result
    assert "[redacted]" in result
    assert redacted(result) == result


@pytest.mark.parametrize(
    "secret",
    [
        "hf_abcdefghijklmnop",
        "sk-" + "a1" * 12,
        "ghp_0123456789abcdefghij",
        "glpat-0123456789abcdefghij",
        "xoxb-1234567890-abc",
        "AKIAIOSFODNN7EXAMPLE",
        "AIza" + "a" * 35,
        "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
    ],
)
def test_secret_with_a_known_form_is_replaced(secret):
    assert redacted(f"cannot log in with {secret}: 403") == "cannot log in with [redacted]: 403"


@pytest.mark.parametrize(
    "text",
    [
        "step=3 loss=0.5 num_tokens=2048 tokens/s: 300",
        'File "tokenizer.py", line 12, in get_token',
        "RuntimeError: [../gloo/pair.cc:547] Connection closed by peer [127.0.0.1]:9401",
        "token=None",
        "s3://bucket/path:3@2",
    ],
)
def test_text_without_secrets_is_unchanged(text):
    assert redacted(text) == text


def test_last_words_are_redacted():
    words = redacted_words(LastWords("exception", "requests.HTTPError", "401 for https://ann:pw@host", 1.0))
    assert words.message == "401 for https://ann:[redacted]@host"
    assert redacted_words(None) is None
