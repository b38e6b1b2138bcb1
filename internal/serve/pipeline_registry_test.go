package serve

import (
	"testing"

	"github.com/pawl-dev/pawl/pipeline"
)

// Every address of a pipeline is checked when the configuration is read, so that a wrong one is an error with
// a line and a column. URLs of stores have a type of their own, which the reader checks.
func TestAddressesAreChecked(t *testing.T) {
	checked := 0
	var walk func(kind string, fields []pipeline.Field)
	walk = func(kind string, fields []pipeline.Field) {
		for _, f := range fields {
			if f.Type == pipeline.URL {
				if f.Check == nil || f.Check("not a url") == nil || f.Check("http://127.0.0.1:1/v1") != nil {
					t.Errorf("%s: %s takes anything for an address, or refuses one", kind, f.Name)
				}
				checked++
			}
			walk(kind, f.Fields)
			if f.Of != nil {
				walk(kind, []pipeline.Field{*f.Of})
			}
		}
	}
	for _, k := range Kinds() {
		walk(k.Name, k.Fields)
		walk(k.Name, k.Top)
	}
	if checked < 6 {
		t.Errorf("%d addresses were found", checked)
	}
}
