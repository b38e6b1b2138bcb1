package console

import "github.com/pawl-dev/pawl/internal/operate"

func messagePages() []page {
	return []page{{path: "/messages", file: "messages", nav: "Messages", key: "m", show: messageList}}
}

type messagesData struct{ Messages []operate.Message }

func messageList(v *view) (any, error) {
	var d messagesData
	_, err := v.get(&d.Messages, nil, "/messages")
	return d, err
}
