"""Tests of `dashboards.markup`: text from outside is escaped."""

from dashboards.markup import escaped_html, escaped_markdown, external_link, link


def test_text_from_outside_is_escaped():
    assert escaped_html("run `ls <x>`\nnow") == "run <code>ls &lt;x&gt;</code><br>now"
    assert link("job", {"job_id": '"><script>'}, "<b>") == (
        '<a href="job?job_id=%22%3E%3Cscript%3E" target="_self">&lt;b&gt;</a>'
    )
    assert external_link("https://x/?a=1&b='") == (
        '<a href="https://x/?a=1&amp;b=&#x27;" target="_blank" rel="noopener noreferrer">https://x/?a=1&amp;b=&#x27;</a>'
    )
    assert escaped_markdown("![x](y) *z*") == r"\!\[x\]\(y\) \*z\*"
