package wecom

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
)

// Envelope is the body of a message: what a handler gets.
type Envelope struct {
	MessageID      string          `json:"message_id"`
	ExternalUserID string          `json:"external_user_id"`
	OpenKfID       string          `json:"open_kf_id"`
	MsgType        string          `json:"msg_type"`
	Content        json.RawMessage `json:"content"` // the item as WeCom sent it
	Timestamp      int64           `json:"timestamp"`
}

// The headers of a message.
const (
	headerType    = "msg_type"
	headerID      = "msg_id"
	headerUser    = "user_id"
	headerAccount = "open_kfid"
	headerOrigin  = "origin"
	headerEvent   = "event_type"
)

// Who a message is from.
const (
	originCustomer = 3
	originServicer = 5 // a person answered in the client of WeCom
)

// item is what the pipeline reads of an element of msg_list.
type item struct {
	MsgID    string `json:"msgid"`
	Account  string `json:"open_kfid"`
	User     string `json:"external_userid"`
	SendTime int64  `json:"send_time"`
	Origin   int    `json:"origin"`
	MsgType  string `json:"msgtype"`
	Event    struct {
		Type        string `json:"event_type"`
		Account     string `json:"open_kfid"`
		User        string `json:"external_userid"`
		WelcomeCode string `json:"welcome_code"`
		FailMsgID   string `json:"fail_msgid"`
		FailType    int    `json:"fail_type"`
	} `json:"event"`

	raw json.RawMessage
}

const typeEvent = "event"

// readItem reads an element of msg_list, of whatever type. account is the one that was pulled.
func readItem(raw json.RawMessage, account string) (item, error) {
	it := item{raw: raw}
	if err := json.Unmarshal(raw, &it); err != nil {
		// A member of a type that is not documented: what can be told apart still is.
		it = item{raw: raw}
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return it, errors.New("an item of msg_list is not an object")
		}
		for name, into := range map[string]any{
			"msgid": &it.MsgID, "open_kfid": &it.Account, "external_userid": &it.User, "send_time": &it.SendTime,
			"origin": &it.Origin, "msgtype": &it.MsgType, "event": &it.Event,
		} {
			if m, ok := members[name]; ok {
				_ = json.Unmarshal(m, into)
			}
		}
	}
	it.User = cmp.Or(it.User, it.Event.User)
	it.Account = cmp.Or(it.Account, it.Event.Account, account)
	if it.MsgID == "" {
		it.MsgID = "none-" + digest(raw)[:32]
	}
	return it, nil
}

// message is the item as it is stored.
func (it *item) message(topic string) (pawl.Message, error) {
	body := bytes.Buffer{}
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	err := enc.Encode(Envelope{
		MessageID: it.MsgID, ExternalUserID: it.User, OpenKfID: it.Account, MsgType: it.MsgType, Content: it.raw,
		Timestamp: it.SendTime,
	})
	if err != nil {
		return pawl.Message{}, err
	}
	m := pawl.Message{
		ID: fitID(it.MsgID), Topic: topic, Key: fitKey(cmp.Or(it.User, it.Account, "none")),
		Body: bytes.TrimSpace(body.Bytes()),
		Headers: map[string]string{
			headerType: it.MsgType, headerID: it.MsgID, headerUser: it.User, headerAccount: it.Account,
			headerOrigin: strconv.Itoa(it.Origin),
		},
	}
	if it.Event.Type != "" {
		m.Headers[headerEvent] = it.Event.Type
	}
	return m, nil
}

// fitID is id if a store takes it, and else one that is derived from it.
func fitID(id string) string {
	if len(id) <= pawl.MaxID && utf8.ValidString(id) && !strings.ContainsFunc(id, unicode.IsControl) {
		return id
	}
	return "long-" + digest([]byte(id))
}

func fitKey(key string) []byte {
	if len(key) <= pawl.MaxKey {
		return []byte(key)
	}
	return []byte("long-" + digest([]byte(key)))
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
