package extract_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline/crawl/extract"
)

const shop = `<html><head><title>Shop</title>
<script type="application/ld+json">{"sku": "A-7", "offers": [{"price": 10.50}, {"price": 9}], "a.b": {"z": 1, "c": 2}}</script>
<script type="application/json">{broken</script>
<script>var stock = 42; var left = 7;</script></head>
<body><h1> Big
 <b>lamp</b></h1><ul><li>red<li>blue</ul>
<a class="next" href=" /page/2 ">next</a><a class="next" href="/page/3">more</a><a class=next>no link</a></body></html>`

var page = &url.URL{Scheme: "http", Host: "shop.example", Path: "/list/1"}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name string
		rule extract.Rule
		want string // as JSON
	}{
		{"text of an element", extract.Rule{CSS: "h1"}, `"Big lamp"`},
		{"all elements", extract.Rule{CSS: "li", All: true}, `["red","blue"]`},
		{"attribute", extract.Rule{CSS: "a.next", Attr: "href"}, `"/page/2"`},
		{"nothing", extract.Rule{CSS: "h2"}, `null`},
		{"group of selectors", extract.Rule{CSS: "h2, title"}, `"Shop"`},
		{"xpath", extract.Rule{XPath: "//ul/li[2]"}, `"blue"`},
		{"xpath of an attribute", extract.Rule{XPath: "//a[@class='next']/@href"}, `"/page/2"`},
		{"xpath of a number", extract.Rule{XPath: "count(//li)"}, `2`},
		{"all of an xpath", extract.Rule{XPath: "//li", All: true}, `["red","blue"]`},
		{"embedded JSON", extract.Rule{JSON: "$.sku"}, `"A-7"`},
		{"a number as it is written", extract.Rule{JSON: "$.offers[0].price"}, `10.50`},
		{"from the end", extract.Rule{JSON: "$.offers[-1].price"}, `9`},
		{"all of JSON", extract.Rule{JSON: "$.offers[*].price", All: true}, `[10.50,9]`},
		{"a quoted name", extract.Rule{JSON: "$['a.b'].*", All: true}, `[2,1]`},
		{"no such index", extract.Rule{JSON: "$.offers[7]"}, `null`},
		{"an object", extract.Rule{JSON: "$.offers[1]"}, `{"price":9}`},
		{"group", extract.Rule{Regexp: `stock = (\d+)`}, `"42"`},
		{"match", extract.Rule{Regexp: `stock = \d+`}, `"stock = 42"`},
		{"without what is removed", extract.Rule{CSS: "h1", Remove: `^Big`}, `"lamp"`},
		{"an absolute URL", extract.Rule{CSS: "a.next", Attr: "href", As: extract.AsURL},
			`"http://shop.example/page/2"`},
		{"all numbers", extract.Rule{Regexp: `= \d+`, All: true, As: extract.AsNumber}, `[42,7]`},
		{"JSON has its form", extract.Rule{JSON: "$.offers[0].price", As: extract.AsNumber, Required: true}, `10.50`},
		{"all matches", extract.Rule{Regexp: `= (\d+);`, All: true}, `["42","7"]`},
	} {
		s, err := extract.New(map[string]extract.Rule{"x": c.rule}, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		items, _, err := s.Read(page, false, []byte(shop))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got, _ := json.Marshal(items[0]["x"]); string(got) != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestNext(t *testing.T) {
	for _, next := range []extract.Rule{{CSS: "a.next"}, {XPath: "//a/@href"}, {Regexp: `href="([^"]+)"`}} {
		s, err := extract.New(nil, &next, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, got, err := s.Read(page, false, []byte(shop))
		if err != nil || strings.Join(got, " ") != "/page/2 /page/3" {
			t.Errorf("%+v: %q, %v", next, got, err)
		}
	}
}

// TestLinksOfAPageWithoutFields: a list of products need not have what every product has.
func TestLinksOfAPageWithoutFields(t *testing.T) {
	s, err := extract.New(map[string]extract.Rule{"price": {CSS: ".price", Required: true}},
		&extract.Rule{CSS: "a.next"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	fields, next, err := s.Read(page, false, []byte(shop))
	if err == nil || len(fields) > 0 || len(next) != 2 {
		t.Errorf("%v, %q, %v", fields, next, err)
	}
}

func TestJSONDocuments(t *testing.T) {
	s, err := extract.New(map[string]extract.Rule{"id": {JSON: "$.items[*].id", All: true}},
		&extract.Rule{JSON: "$.next"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	items, next, err := s.Read(page, true,
		[]byte(`{"items": [{"id": 1}, {}, {"id": 12345678901234567890}], "next": "?page=2"}`))
	got, _ := json.Marshal(items)
	if err != nil || string(got) != `[{"id":[1,12345678901234567890]}]` || len(next) != 1 || next[0] != "?page=2" {
		t.Errorf("%s, %q, %v", got, next, err)
	}
	if _, _, err := s.Read(page, true, []byte(`{"items": `)); err == nil {
		t.Error("half a document was read")
	}
}

// TestItems: the fields are those of each part of a page, and of nothing around it.
func TestItems(t *testing.T) {
	const list = `<h1>Lamps</h1><table><tr data-id=1><td>One <b>10</b><tr data-id=2><td>Two</table>` +
		`<script type="application/ld+json">{"offers": [{"id": 7}, {"id": 8, "name": "x"}]}</script>`
	for _, c := range []struct {
		items  extract.Rule
		fields map[string]extract.Rule
		want   string
	}{
		{extract.Rule{CSS: "tr"}, map[string]extract.Rule{"id": {CSS: "tr", Attr: "data-id"}, "price": {XPath: "//b"},
			"title": {CSS: "h1"}, "source": {Regexp: "<b>(.*)</b>"}},
			`[{"id":"1","price":"10","source":"10"},{"id":"2"}]`},
		{extract.Rule{XPath: "//tr[b or td/b]"}, map[string]extract.Rule{"text": {CSS: "td"}}, `[{"text":"One 10"}]`},
		{extract.Rule{JSON: "$.offers[*]"}, map[string]extract.Rule{"id": {JSON: "$.id"}, "name": {JSON: "$.name"}},
			`[{"id":7},{"id":8,"name":"x"}]`},
		{extract.Rule{CSS: "li"}, map[string]extract.Rule{"x": {CSS: "li"}}, `null`},
	} {
		s, err := extract.New(c.fields, nil, &c.items)
		if err != nil {
			t.Fatal(err)
		}
		items, _, err := s.Read(page, false, []byte(list))
		if got, _ := json.Marshal(items); err != nil || string(got) != c.want {
			t.Errorf("%+v: %s, %v, want %s", c.items, got, err, c.want)
		}
	}
}

// TestDeepPages: the parser refuses more than 512 nested elements, and says so.
func TestDeepPages(t *testing.T) {
	s, err := extract.New(map[string]extract.Rule{"h1": {CSS: "h1"}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Read(page, false, []byte(strings.Repeat("<div>", 5000)+"<h1>x</h1>")); err == nil ||
		!strings.Contains(err.Error(), "field h1") {
		t.Errorf("deep page: %v", err)
	}
}

func TestWrongRules(t *testing.T) {
	_, err := extract.New(map[string]extract.Rule{
		"none": {}, "two": {CSS: "a", JSON: "$.a"}, "css": {CSS: "a["}, "xpath": {XPath: "//["}, "json": {JSON: "a.b"},
		"regexp": {Regexp: "("}, "attr": {XPath: "//a", Attr: "href"}, "open": {JSON: "$['a"}, "dots": {JSON: "$..a"},
	}, &extract.Rule{CSS: "]"}, &extract.Rule{Regexp: "."})
	if err == nil {
		t.Fatal("wrong rules are taken")
	}
	for _, part := range []string{"fields.none", "fields.two", "fields.css", "fields.xpath", "fields.json",
		"fields.regexp", "fields.attr", "fields.open", "fields.dots", "next: css", "items: items are elements"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
}
