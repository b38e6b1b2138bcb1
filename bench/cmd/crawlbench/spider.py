import scrapy


class Pages(scrapy.Spider):
    """Follows every link, and keeps its queue and what it has seen in JOBDIR."""

    name = "pages"

    def __init__(self, url, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [url]

    def parse(self, response):
        yield {"url": response.url, "status": response.status, "title": response.css("title::text").get()}
        yield from response.follow_all(css="a[href]")
