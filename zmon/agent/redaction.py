"""Replace what looks like a secret in the text of a job, because many people see stderr, stacks and last words.

Pure. docs/agent.md lists the patterns for users. Nothing can recognize every secret.
"""

from __future__ import annotations

import re
from dataclasses import replace

from zmon.schema.rank import LastWords

REDACTED = "[redacted]"
# At most 40 characters before the word, so that the search takes linear time. A name with a longer prefix is not found.
_SECRET_NAME = (
    r"[\w.-]{0,40}(?:token|secret|passwd|password|passphrase|pwd|"
    r"api[_-]?key|access[_-]?key|private[_-]?key|credentials?)"
)
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # a private key, even if its end is missing
        (r"(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", rf"\1{REDACTED}"),
        # Authorization: Bearer abc, Authorization: Basic abc
        (r"(?i)\b(authorization[\"']?\s*[=:]\s*[\"']?(?:[a-z]+\s+)?)[^\s\"',]+", rf"\1{REDACTED}"),
        (r"(?i)\b(bearer\s+)[\w.~+/=-]{6,}", rf"\1{REDACTED}"),
        # https://user:password@host
        (r"(://[^\s/:@]*:)[^\s/]+(@)", rf"\1{REDACTED}\2"),
        # ?X-Amz-Signature=abc, &sig=abc
        (r"(?i)([?&](?:sig|signature|x-amz-[a-z-]+)=)[^\s&\"']+", rf"\1{REDACTED}"),
        # token=abc, "api_key": "abc", --password abc; not a missing value, nor one that an earlier pattern has replaced
        (
            rf"(?i)\b({_SECRET_NAME}[\"']?\s*[=:]\s*)(?!None\b|null\b|\[redacted\])"
            r"(?:\"[^\"\n]*\"?|'[^'\n]*'?|[^\s,;&\"']+)",
            rf"\1{REDACTED}",
        ),
        (rf"(?i)(--{_SECRET_NAME}\s+)[^\s-]\S*", rf"\1{REDACTED}"),
        # by form alone: Hugging Face, OpenAI and Anthropic, GitHub, GitLab, Slack, AWS, Google, JSON web tokens. The
        # bound on the first part of a web token keeps the search linear, too
        (r"\bhf_[A-Za-z0-9]{8,}", REDACTED),
        (r"\bsk-[\w-]{16,}", REDACTED),
        (r"\b(?:gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,})", REDACTED),
        (r"\b(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}\b", REDACTED),
        (r"\bAIza[\w-]{35}", REDACTED),
        (r"\beyJ[\w-]{8,2000}\.[\w-]{8,}\.[\w-]*", REDACTED),
    )
)  # fmt: skip


def redacted(text: str) -> str:
    """Return the text with each secret replaced; its name stays, such as `token=`."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def redacted_words(words: LastWords | None) -> LastWords | None:
    """Return last words with each secret replaced."""
    if words is None:
        return None
    return replace(words, message=redacted(words.message), root=redacted(words.root))
