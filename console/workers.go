package console

import (
	"net/url"
	"slices"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
)

func workerPages() []page {
	return []page{{path: "/workers", file: "workers", nav: "Workers", key: "w", show: workerList}}
}

type workersData struct {
	Workers []operate.Worker
	Reclaim *operate.Command // nil: it is not offered
	Cursor  string
	V       *view
}

func workerList(v *view) (any, error) {
	d := workersData{V: v}
	header, err := v.cached(&d.Workers, v.query("cursor"), "/workers")
	if d.Cursor = header.Get("Pawl-Cursor"); err != nil || !v.May(api.Operator) {
		return d, err
	}
	var all []operate.Command
	_, err = v.get(&all, url.Values{"limit": {"1000"}}, "/commands")
	if i := slices.IndexFunc(all, func(c operate.Command) bool { return c.Name == "reclaim" }); i >= 0 {
		d.Reclaim = &all[i]
	}
	return d, err
}

// Take is the form that takes back what a worker holds.
func (d workersData) Take(owner string) *commandForm {
	c := *d.Reclaim
	c.Flags = []operate.CommandFlag{{Name: "owner"}}
	f := d.V.form(&c, map[string]string{"ID": "", "--owner": owner})
	f.Label = d.V.T("Take back what it holds")
	return f
}
