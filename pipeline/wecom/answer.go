package wecom

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/pawl-dev/pawl"
)

// Handler decides how to answer a message.
type Handler interface {
	// Answer returns the answer to a delivery whose body is an [Envelope]. It is called again when it fails,
	// and after a crash. Calls for messages of one user come one after the other.
	Answer(ctx context.Context, d *pawl.Delivery) (Answer, error)
}

// HandlerFunc is a function as a [Handler].
type HandlerFunc func(ctx context.Context, e Envelope) (Answer, error)

// Answer calls f.
func (f HandlerFunc) Answer(ctx context.Context, d *pawl.Delivery) (Answer, error) {
	var e Envelope
	if err := json.Unmarshal(d.Body, &e); err != nil {
		return Answer{}, pawl.Permanent(pawl.OfKind(pawl.KindDecode, err))
	}
	return f(ctx, e)
}

// Answer is the answer of a handler; the zero value sends nothing.
type Answer struct {
	// Replies are sent to the user, in order: bodies of send_msg without touser, open_kfid and msgid.
	Replies []json.RawMessage `json:"replies,omitempty"`
	// Welcome is sent with the code of an enter_session event, which is valid for 20 seconds.
	Welcome json.RawMessage `json:"welcome,omitempty"`
	// Transfer moves the session, after the replies.
	Transfer *Transfer `json:"transfer,omitempty"`
}

// Transfer moves a session into another state: 1 the assistant, 2 the queue, 3 a servicer, 4 the end.
type Transfer struct {
	State    int    `json:"state"`
	Servicer string `json:"servicer_userid,omitempty"`
}

// readAnswer reads what a handler wrote; nothing is no answer.
func readAnswer(text []byte) (a Answer, err error) {
	if text = bytes.TrimSpace(text); len(text) == 0 || string(text) == "null" {
		return a, nil
	}
	var quoted string
	if json.Unmarshal(text, &quoted) == nil { // the answer as a string, as programs write it that take it for text
		return readAnswer([]byte(quoted))
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf(`the handler's answer is not {"replies":[…]}: %w`, err)
	}
	return a, nil
}

// The calls that answer.
const (
	callReply    = "reply"
	callWelcome  = "welcome"
	callTransfer = "transfer"
)

// task is the body of a message of NAME.replies: one call.
type task struct {
	Call      string          `json:"call"`
	MsgID     string          `json:"msgid"`
	MessageID string          `json:"message_id"`
	Index     int             `json:"index"`
	User      string          `json:"user"`
	OpenKfID  string          `json:"open_kfid"`
	At        int64           `json:"at"` // send_time of what is answered
	Body      json.RawMessage `json:"body"`
}

// tasks are the calls of an answer, in the order in which they are made.
func (a *Answer) tasks(e *Envelope, code string) ([]task, error) {
	var all []task
	add := func(call string, index int, body map[string]json.RawMessage) {
		t := task{Call: call, MessageID: e.MessageID, Index: index, User: e.ExternalUserID, OpenKfID: e.OpenKfID,
			At: e.Timestamp}
		t.MsgID = replyID(e.MessageID, call, index)
		t.Body, _ = json.Marshal(body) //nolint:errchkjson // texts
		all = append(all, t)
	}
	if len(a.Welcome) > 0 && string(a.Welcome) != "null" {
		body, err := members(a.Welcome, "welcome")
		if err != nil {
			return nil, err
		}
		if code == "" {
			return nil, errors.New("there is a welcome, but the message is not an enter_session event with a code")
		}
		body["code"], _ = json.Marshal(code)
		add(callWelcome, 0, body)
	}
	for i, r := range a.Replies {
		body, err := members(r, "replies["+strconv.Itoa(i)+"]")
		if err != nil {
			return nil, err
		}
		add(callReply, i, body)
	}
	if a.Transfer != nil {
		body := map[string]json.RawMessage{"service_state": json.RawMessage(strconv.Itoa(a.Transfer.State))}
		if a.Transfer.Servicer != "" {
			body["servicer_userid"], _ = json.Marshal(a.Transfer.Servicer)
		}
		add(callTransfer, 0, body)
	}
	if len(all) > 0 && (e.ExternalUserID == "" || e.OpenKfID == "") {
		return nil, errors.New("there is an answer, but the message names no user to be answered")
	}
	return all, nil
}

// members reads a message that is to be sent.
func members(text json.RawMessage, name string) (map[string]json.RawMessage, error) {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(text, &body); err != nil || body == nil {
		return nil, fmt.Errorf(`%s is not an object like {"msgtype":"text","text":{"content":"…"}}`, name)
	}
	var kind string
	if json.Unmarshal(body["msgtype"], &kind) != nil || kind == "" {
		return nil, fmt.Errorf("%s has no msgtype", name)
	}
	return body, nil
}

// replyID is the msgid of a call. It follows from what is answered, so that a repetition has the same one, and WeCom
// accepts it once.
func replyID(messageID, call string, index int) string {
	text := messageID + "|" + strconv.Itoa(index)
	if call != callReply {
		text += "|" + call
	}
	sum := sha256.Sum256([]byte(text))
	return base32.StdEncoding.EncodeToString(sum[:])[:32]
}
