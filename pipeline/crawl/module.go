package crawl

import (
	"context"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/crawl/extract"
	"github.com/pawl-dev/pawl/policy"
)

// selectors are the keys of a rule that reads a value from a page.
func selectors() []pipeline.Field {
	return []pipeline.Field{
		{Name: "css", Doc: "A CSS selector: the text of the first element."},
		{Name: "xpath", Doc: "An XPath expression: the text of the first node."},
		{Name: "json",
			Doc: "A JSON path, such as `$.offers[0].price`, in a JSON document or in the JSON that an HTML page embeds."},
		{Name: "regexp", Doc: "A regular expression: the first group of the first match in the source."},
		{Name: "attr", Doc: "With css: this attribute instead of the text."},
		{Name: "all", Type: pipeline.Bool, Default: "false", Doc: "A list of all matches."},
	}
}

// ruleFields are the keys of a field: a selector, and what is done with its value.
func ruleFields() []pipeline.Field {
	return append(selectors(),
		pipeline.Field{Name: "remove", Doc: "A regular expression: its matches are left out of the text."},
		pipeline.Field{Name: "as", Type: pipeline.Choice, Choices: []string{extract.AsText, extract.AsNumber,
			extract.AsURL},
			Default: extract.AsText,
			Doc:     "`number` is the first number in the text (`EUR 1.234,50` is 1234.50), `url` an absolute URL."},
		pipeline.Field{Name: "required", Type: pipeline.Bool, Default: "false",
			Doc: "A page without the value is bad input: it is stored without fields, unless the policy says otherwise."},
	)
}

func ruleOf(s pipeline.Section) extract.Rule {
	return extract.Rule{
		CSS: s.Text("css"), XPath: s.Text("xpath"), JSON: s.Text("json"), Regexp: s.Text("regexp"),
		Attr: s.Text("attr"), All: s.Bool("all"),
	}
}

// extractOf compiles the rules of a section; nil: there are none.
func extractOf(s pipeline.Section) (*extract.Set, error) {
	fields := map[string]extract.Rule{}
	for name, f := range s.Sections("fields") {
		r := ruleOf(f)
		r.Remove, r.As, r.Required = f.Text("remove"), f.Text("as"), f.Bool("required")
		fields[name] = r
	}
	rule := func(key string) *extract.Rule {
		if !s.Has(key) {
			return nil
		}
		if r := ruleOf(s.Section(key)); r != (extract.Rule{}) {
			return &r
		}
		return nil
	}
	next, items := rule("next"), rule("items")
	if len(fields) == 0 && next == nil && items == nil {
		return nil, nil
	}
	return extract.New(fields, next, items)
}

// middleware is the event of what is done with the data of a page: it selects the rows of the policy.
var middleware = policy.Event{Domain: policy.Engine, Type: "MiddlewareBefore"}

// extract reads the fields of a page, and links to follow. A page that cannot be read as its rules need it is
// bad input: by the policy it is stored without fields, and its links are followed.
func (c *crawler) extract(ctx context.Context, a *answer, p *page) (next []string, err error) {
	rules := c.options.Extract
	if rules == nil || p.charset == "" {
		return nil, nil
	}
	body := p.text(a.body)
	dispatch.Step(ctx, middleware, dispatch.Started)
	items, next, err := rules.Read(p.base, strings.HasSuffix(p.kind, "json"), body)
	if err != nil {
		err = policy.At(policy.With(pawl.OfKind(KindDataMiddleware, err), policy.BadInput), middleware)
		err = pawl.WithAttrs(err, map[string]string{"stage": "middleware"})
		_, err = policy.Degraded(ctx, err)
		return next, err
	}
	if p.items = items; !rules.HasItems() {
		p.items, p.fields = nil, items[0]
	}
	dispatch.Step(ctx, middleware, dispatch.Completed)
	return next, nil
}

// moduleOptions are those of a file with a module, which is a section as it could stand under pipelines, and its out.
func moduleOptions(in *pipeline.Invocation, path string) (o Options, out string, err error) {
	s, err := in.Section(path, Name)
	if err != nil {
		return o, "", err
	}
	o, err = sectionOptions(s)
	return o, s.Text("out"), err
}
