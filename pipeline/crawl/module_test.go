package crawl

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/crawl/extract"
)

// shopModule is what the host makes of a file with fields and next.
func shopModule(seeds ...string) pipeline.Section {
	rule := func(values map[string]any) pipeline.Section { return pipeline.NewSection(ruleFields(), values) }
	return pipeline.NewSection(fields(), map[string]any{
		"seeds": seeds, "scope": ScopeHost, "concurrency": int64(16), "per_host": int64(2),
		"timeout": Defaults().Timeout, "max_bytes": int64(1 << 20),
		"user_agent": defaultAgent, "allow_private": true, "depth": int64(1),
		"fields": map[string]pipeline.Section{
			"name": rule(map[string]any{"css": "h1"}), "sku": rule(map[string]any{"json": "$.sku"}),
			"price": rule(map[string]any{"regexp": `price: (\d+)`}),
		},
		"next": rule(map[string]any{"css": "a.next"}),
	})
}

func shop() map[string]http.HandlerFunc {
	item := func(name, sku string) http.HandlerFunc {
		return text("text/html; charset=iso-8859-1", `<script type="application/ld+json">{"sku": `+sku+
			`}</script><h1>`+name+"</h1>price: 42"+links("/deeper"))
	}
	return map[string]http.HandlerFunc{
		"/":      text("text/html", links("/caf")+`<a class="next" href="?page=2">next</a>`),
		"/caf":   item("caf\xe9", "12345678901234567890.50"),
		"/lamp":  item("lamp", `"B2"`),
		"/deep":  text("text/html", strings.Repeat("<div>", 5000)+"<h1>too deep to be parsed</h1>"),
		"/plain": text("text/plain", "price: 7"),
	}
}

// TestModule: fields are read in UTF-8, pages that follow are taken as pages of the same depth, and a page whose fields
// cannot be read is stored without them.
func TestModule(t *testing.T) {
	pages := shop()
	first := pages["/"]
	pages["/"] = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("page") == "2" {
			text("text/html", links("/lamp", "/deep", "/plain"))(w, r)
			return
		}
		first(w, r)
	}
	w := newWeb(t, pages)
	r := &rig{T: t, dir: t.TempDir(), module: shopModule(w.URL), changed: map[string]any{"module": "shop.yaml"}}
	sum, got, err := r.run(t.Context())
	if err != nil || sum.Stored != 6 || sum.Excluded != 2 { // the links to /deeper, which has depth 2
		t.Fatalf("%+v, %v", sum, err)
	}
	if p := got["/?page=2"]; p.Depth != 0 {
		t.Errorf("the second page: %+v", p)
	}
	for path, want := range map[string]string{
		"/caf":  `{"name":"café","price":"42","sku":12345678901234567890.50}`,
		"/lamp": `{"name":"lamp","price":"42","sku":"B2"}`,
		"/deep": "null", "/plain": `{"price":"7"}`,
	} {
		if have, _ := json.Marshal(got[path].Fields); string(have) != want || got[path].Depth != 1 {
			t.Errorf("%s: %s at depth %d, want %s", path, have, got[path].Depth, want)
		}
	}
}

// TestDataThatIsMissing: what the policy decides about is of a kind and of a stage of its own.
func TestDataThatIsMissing(t *testing.T) {
	rules, err := extract.New(map[string]extract.Rule{"price": {CSS: ".price", Required: true}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := Defaults("http://example.com/")
	o.Extract = rules
	seeds, err := o.check()
	if err != nil {
		t.Fatal(err)
	}
	a := &answer{header: http.Header{"Content-Type": {"text/html"}}, body: []byte("<h1>Lamp</h1>")}
	_, _, err = newCrawler(Name, "", o, seeds).record(t.Context(), seeds[0], &request{}, a)
	if f := pawl.Describe(err); f.Kind != KindDataMiddleware || f.Attrs["stage"] != "middleware" {
		t.Errorf("%+v", f)
	}
}

func TestTry(t *testing.T) {
	w := newWeb(t, shop())
	var shown any
	in := &pipeline.Invocation{
		Args: []string{w.URL + "/lamp"}, Flags: pipeline.NewValues(tryCommand().Flags,
			map[string]any{"module": "shop.yaml"}, nil), Stdout: &bytes.Buffer{},
		Section:  func(string, string) (pipeline.Section, error) { return shopModule("https://example.com/"), nil },
		Document: func(v any, _ func(w io.Writer) error) error { shown = v; return nil },
	}
	if err := try(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if r, ok := shown.(*Record); !ok || r.Fields["sku"] != "B2" || r.Status != 200 {
		t.Errorf("%+v", shown)
	}
	if len(w.times("/deeper")) > 0 {
		t.Error("a link was followed")
	}
}

func TestWrongModules(t *testing.T) {
	rule := pipeline.NewSection(ruleFields(), map[string]any{"css": "a[", "xpath": "//a"})
	s := pipeline.NewSection(fields(), map[string]any{"fields": map[string]pipeline.Section{"x": rule}, "items": rule})
	if faults := checkSection("", s); len(faults) != 2 || faults[0].Path != "fields.x" || faults[1].Path != "items" {
		t.Errorf("%+v", faults)
	}
	if _, err := extract.New(nil, &extract.Rule{CSS: "a["}, nil); err == nil {
		t.Error("a wrong selector is taken")
	}
}

// TestPrivateSeedsOfAModule: the flag --allow-private counts for the seeds of a module.
func TestPrivateSeedsOfAModule(t *testing.T) {
	private := pipeline.NewSection(fields(), map[string]any{"seeds": []string{"http://127.0.0.1:1/"},
		"scope": ScopeHost, "concurrency": int64(1), "per_host": int64(1), "timeout": Defaults().Timeout,
		"max_bytes": int64(1 << 20), "user_agent": defaultAgent, "allow_private": false})
	if faults := checkSection("", private); len(faults) > 0 {
		t.Errorf("a module: %v", faults)
	}
	if faults := checkSection("shop", private); len(faults) != 1 || faults[0].Path != "seeds" {
		t.Errorf("a section: %v", faults)
	}
}
