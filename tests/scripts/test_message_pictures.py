"""Test of the page that becomes the picture of `zmon ends`."""

from scripts.message_pictures import ends


def test_page_of_ends_has_the_outcome_of_each_launch():
    page = ends()
    assert "$ zmon ends" in page
    for text in ("llm-7b", "cancelled", "ads-ranking", "failed", "done"):
        assert text in page
