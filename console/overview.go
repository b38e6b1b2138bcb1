package console

import "github.com/pawl-dev/pawl/internal/operate"

func overviewPages() []page {
	return []page{{path: "/", file: "overview", nav: "Overview", key: "o", show: overview}}
}

type overviewData struct {
	Topics []operate.Topic
}

func overview(v *view) (any, error) {
	var d overviewData
	_, err := v.get(&d.Topics, nil, "/topics")
	return d, err
}
