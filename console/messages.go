package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func messagePages() []page {
	return []page{
		{path: "/messages", file: "messages", nav: "Messages", key: "m", show: messageList},
		{path: "/messages/{id}", file: "message", show: messagePage},
		{path: "/messages/{id}/body", show: messageBody},
		{path: "/send", file: "send", nav: "Send", key: "s", show: sendForm},
		{path: "/send", method: http.MethodPost, show: sendMessage},
	}
}

// messageFilters are the parameters that GET /v1/messages takes.
var messageFilters = []string{"topic", "state", "key", "older_than", "search", "header", "unique_key"}

type messagesData struct {
	Messages []operate.Message
	Topics   []string
	States   []store.State
	Next     string // cursor
	Looked   string // how many were looked at, if that was bounded
	About    int64  // how many there are by the figures, -1: not known
}

// listed is how many messages a page has.
const listed = 100

func messageList(v *view) (any, error) {
	d := messagesData{Topics: v.topicNames(), States: []store.State{store.Waiting, store.Delayed, store.Leased,
		store.IsDead, store.Acked}}
	q := url.Values{"limit": {strconv.Itoa(listed)}}
	for _, name := range append(messageFilters, "cursor") {
		if value := v.Query(name); value != "" {
			q.Set(name, value)
		}
	}
	if text := strings.TrimSpace(v.Query("q")); text != "" {
		if id := v.findID(text); id != "" {
			return nil, v.back(v.URL("/messages/%s", id))
		}
		q.Set("search", text)
	}
	header, err := v.cached(&d.Messages, q, "/messages")
	d.Next, d.Looked = header.Get("Pawl-Cursor"), header.Get("Pawl-Looked")
	d.About = d.about(v)
	return d, err
}

// about is how many messages match, if the figures tell.
func (d *messagesData) about(v *view) (n int64) {
	for _, name := range append(messageFilters, "q") {
		if name != "topic" && name != "state" && v.Query(name) != "" {
			return -1
		}
	}
	known, err := v.topics()
	if err != nil || v.Query("state") == string(store.Acked) { // how many are kept is in no figure
		return -1
	}
	for i := range known.Rows {
		t := &known.Rows[i].Topic
		if topic := v.Query("topic"); topic != "" && topic != t.Topic {
			continue
		}
		switch store.State(v.Query("state")) {
		case store.Waiting:
			n += t.Waiting
		case store.Delayed:
			n += t.Delayed
		case store.Leased:
			n += t.Leased
		case store.IsDead:
			n += t.Dead + t.Resolved
		default:
			n += t.Waiting + t.Delayed + t.Leased
		}
	}
	return n
}

// findID finds a message by its id.
func (v *view) findID(text string) string {
	var found operate.Message
	if strings.ContainsAny(text, " /?#") || len(text) > 128 {
		return ""
	}
	if _, err := v.get(&found, nil, "/messages/%s", text); err != nil {
		return ""
	}
	return found.ID
}

// form is a message in any state.
type form struct {
	operate.DeadLetter
	AckedAt *string `json:"acked_at"`
}

type messageData struct {
	M       form
	Why     *operate.Explanation
	Body    *bodyView
	Headers []pair
	Trace   string
	Open    bool // it can be cancelled
	Raw     string
	JSON    bool
}

func messagePage(v *view) (any, error) {
	id := v.r.PathValue("id")
	var d messageData
	if _, err := v.get(&d.M, nil, "/messages/%s", id); err != nil {
		if _, why := v.get(&d.Why, nil, "/messages/%s/explain", id); why != nil {
			return nil, why // it says who took it out
		}
		return nil, err
	}
	if _, err := v.get(&d.Why, nil, "/messages/%s/explain", id); err != nil {
		d.Why = nil
	}
	d.Body = bodyOf(&d.M.Message, v.Query("as"))
	d.Headers = masked(d.M.Headers)
	d.Open = d.M.State == store.Waiting || d.M.State == store.Delayed
	if parts := strings.Split(d.M.Headers["traceparent"], "-"); len(parts) == 4 && v.k.config.Trace != "" {
		d.Trace = strings.ReplaceAll(v.k.config.Trace, "{trace}", url.PathEscape(parts[1]))
	}
	if d.M.Body != nil && v.May("operator") {
		d.Raw, d.JSON = *d.M.Body, d.Body.Tree != nil
	}
	return d, nil
}

// early is how many of the first attempts a page folds up, so that one sees the last ones: none of a few.
func early(attempts []operate.Attempt) int {
	const open = 5
	if len(attempts) < 2*open {
		return 0
	}
	return len(attempts) - open
}

// messageBody gives a body as it is, to be kept as a file.
func messageBody(v *view) (any, error) {
	var m form
	if _, err := v.get(&m, nil, "/messages/%s", v.r.PathValue("id")); err != nil {
		return nil, err
	}
	v.w.Header().Set("Content-Type", "application/octet-stream")
	v.w.Header().Set("Content-Disposition", `attachment; filename="body"`)
	_, _ = v.w.Write(bytesOf(&m.Message)) // the browser asks again
	return nil, errAnswered
}

type sendData struct {
	Topics       []string
	Topic        string
	Key, Body    string
	Headers      string
	Priority     int
	JSON, Binary bool
}

// sendForm is for a new message, or for a copy of another one.
func sendForm(v *view) (any, error) {
	d := sendData{Topics: v.topicNames(), Topic: v.Query("topic"), Key: v.Query("key")}
	id := v.Query("copy")
	if id == "" {
		return d, nil
	}
	var m form
	if _, err := v.get(&m, nil, "/messages/%s", id); err != nil {
		return nil, err
	}
	d.Topic, d.Key, d.Body, d.Priority, d.Binary = m.Topic, text(m.Key), text(m.Body), m.Priority, m.BodyBase64 != nil
	if d.Binary {
		d.Body = *m.BodyBase64
	}
	for name, value := range m.Headers {
		if !strings.HasPrefix(name, "pawl-") && name != "traceparent" && name != "tracestate" {
			d.Headers += name + ": " + value + "\n"
		}
	}
	return d, nil
}

// sendMessage appends what the form has.
func sendMessage(v *view) (any, error) {
	body, err := v.fields()
	if err != nil {
		return nil, err
	}
	var receipt struct {
		ID          string `json:"id"`
		DuplicateOf string `json:"duplicate_of"`
	}
	if err := v.post(&receipt, body, "/messages"); err != nil {
		return nil, err
	}
	if receipt.DuplicateOf != "" {
		v.say(v.T("It was there already, and is not sent again."))
		return nil, v.back(v.URL("/messages/%s", receipt.DuplicateOf))
	}
	v.say(v.T("It is sent."))
	return nil, v.back(v.URL("/messages/%s", receipt.ID))
}
