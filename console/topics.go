package console

import (
	"github.com/pawl-dev/pawl/internal/operate"
)

func topicPages() []page {
	return []page{
		{path: "/topics", file: "topics", nav: "Topics", key: "t", show: topicList},
		{path: "/topics/{topic}", file: "topic", show: topicPage},
	}
}

type topicsData struct{ Topics []operate.Topic }

func topicList(v *view) (any, error) {
	var d topicsData
	_, err := v.get(&d.Topics, nil, "/topics")
	return d, err
}

type topicData struct{ Topic operate.Topic }

func topicPage(v *view) (any, error) {
	var d topicData
	_, err := v.get(&d.Topic, nil, "/topics/%s", v.r.PathValue("topic"))
	return d, err
}
