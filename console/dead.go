package console

import "github.com/pawl-dev/pawl/internal/operate"

func deadPages() []page {
	return []page{{path: "/dead", file: "dead", nav: "Dead letters", key: "d", show: deadDesk}}
}

type deadData struct{ Groups []operate.DeadGroup }

func deadDesk(v *view) (any, error) {
	var d deadData
	_, err := v.get(&d.Groups, nil, "/dead/groups")
	return d, err
}
