"""Tell people about ends of launches and about findings, by e-mail, chat or pager, without Alertmanager.

A file of the site (`recipients`) says who is told, where, and about what. `notices` decides what is sent: one message
for each end, one for each job and severity of its findings, and one when these are over. `outbox` has the unsent
messages on disk. `sending` sends a message by apprise, which knows about 190 services. `notifier` runs all of this,
with a thread for each recipient.
"""

from zmon.notify.notifier import Notifier
from zmon.notify.outbox import FILE
from zmon.notify.recipients import Recipient, read_recipients
from zmon.notify.sending import AppriseService

__all__ = ["FILE", "AppriseService", "Notifier", "Recipient", "read_recipients"]
