"""Tell people about ends of launches and about findings, by e-mail, chat or pager, without Alertmanager.

A file of the site (`recipients`) says where to, and what each recipient wants. `notices` decides what is sent: one
message for each end, one for each job and severity of its findings, and one when these are over. `outbox` keeps what is
not sent yet on disk, `sending` sends it by apprise, which knows about 190 services, and `notifier` does both in a
thread.
"""

from zmon.notify.notifier import Notifier
from zmon.notify.outbox import FILE
from zmon.notify.recipients import Recipient, read_recipients
from zmon.notify.sending import AppriseService

__all__ = ["FILE", "AppriseService", "Notifier", "Recipient", "read_recipients"]
