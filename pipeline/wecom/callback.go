package wecom

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxCallback   = 64 << 10
	callbackStore = 4 * time.Second // WeCom hangs up after 5
	eventMessages = "kf_msg_or_event"
)

// callback receives WeCom's notices that there are messages to be pulled. It stores the notice and answers; it
// never pulls.
type callback struct {
	seal   *seal
	window time.Duration // how far the time of a callback may be off; 0: any
	ring   func(ctx context.Context, bell doorbell) error
	seen   func(result string, took time.Duration)
}

// ServeHTTP implements http.Handler.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	status, result, text := http.StatusMethodNotAllowed, "method", []byte(nil)
	switch r.Method {
	case http.MethodGet:
		status, result, text = c.echo(r)
	case http.MethodPost:
		status, result = c.post(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text)
	c.seen(result, time.Since(began))
}

// echo answers the check of the URL: with the plaintext, and nothing around it.
func (c *callback) echo(r *http.Request) (status int, result string, text []byte) {
	text, status, result = c.unseal(r, r.URL.Query().Get("echostr"))
	if status != http.StatusOK {
		return status, result, nil
	}
	return status, "echo", text
}

func (c *callback) post(w http.ResponseWriter, r *http.Request) (status int, result string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCallback))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return http.StatusRequestEntityTooLarge, "large"
	}
	if err != nil {
		return http.StatusBadRequest, "malformed"
	}
	var outer struct {
		Encrypt string `xml:"Encrypt" json:"Encrypt"`
	}
	if decode(body, &outer) != nil || outer.Encrypt == "" {
		return http.StatusBadRequest, "malformed"
	}
	text, status, result := c.unseal(r, outer.Encrypt)
	if status != http.StatusOK {
		return status, result
	}
	event, err := readNotice(text)
	if err != nil {
		return http.StatusBadRequest, "malformed"
	}
	if event.Event != eventMessages {
		return http.StatusOK, "other"
	}
	ctx, cancel := context.WithTimeout(r.Context(), callbackStore)
	defer cancel()
	if err := c.ring(ctx, doorbell{Account: event.OpenKfID, Token: event.Token}); err != nil {
		if r.Context().Err() != nil { // nobody reads the answer, and the doorbell may be stored all the same
			return http.StatusServiceUnavailable, "gone"
		}
		return http.StatusServiceUnavailable, "store" // WeCom repeats it
	}
	return http.StatusOK, "doorbell"
}

// unseal checks the sender and the time of a callback, and decrypts it.
func (c *callback) unseal(r *http.Request, encrypted string) (text []byte, status int, result string) {
	q := r.URL.Query()
	signature, timestamp, nonce := q.Get("msg_signature"), q.Get("timestamp"), q.Get("nonce")
	if signature == "" || timestamp == "" || encrypted == "" {
		return nil, http.StatusBadRequest, "malformed"
	}
	if !c.seal.verify(signature, timestamp, nonce, encrypted) {
		return nil, http.StatusForbidden, "signature"
	}
	at, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return nil, http.StatusBadRequest, "malformed"
	}
	if off := time.Since(time.Unix(at, 0)).Abs(); c.window > 0 && off > c.window {
		return nil, http.StatusForbidden, "time"
	}
	text, err = c.seal.open(encrypted)
	switch {
	case errors.Is(err, errReceiver):
		return nil, http.StatusForbidden, "receiver"
	case err != nil:
		return nil, http.StatusBadRequest, "malformed"
	}
	return text, http.StatusOK, ""
}

// notice is the part of a callback that is read.
type notice struct {
	Event    string `xml:"Event" json:"Event"`
	Token    string `xml:"Token" json:"Token"`
	OpenKfID string `xml:"OpenKfId" json:"OpenKfId"`
}

// readNotice reads what a callback says. The signature covers the ciphertext, so only a holder of the token can have
// damaged it; damaged callbacks are refused anyway, and come again.
//
// XML shows damage by itself, because each name stands there twice. In JSON a single flipped bit may make of a member
// one that nobody knows, so its names are read exactly, and a member that is not documented is taken only where all
// documented ones are there: WeCom may add some, and old accounts have no OpenKfId, but both at once is damage.
func readNotice(text []byte) (n notice, err error) {
	if err := decode(text, &n); err != nil {
		return n, err
	}
	if !printable(n.Token) || !printable(n.OpenKfID) {
		return n, errors.New("the token or the account is damaged")
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return n, nil // it is XML
	}
	documented := []string{"ToUserName", "CreateTime", "MsgType"}
	if n.Event == eventMessages {
		documented = append(documented, "Event", "Token", "OpenKfId")
	} else if string(members["MsgType"]) == `"event"` {
		documented = append(documented, "Event")
	}
	there := 0
	for _, name := range documented {
		if members[name] != nil {
			there++
		}
	}
	if there < len(documented) && there < len(members) {
		return n, errors.New("a member is missing, and another one is not documented")
	}
	if at := members["CreateTime"]; at != nil {
		_, err = strconv.ParseUint(strings.Trim(string(at), `"`), 10, 63)
	}
	return n, err
}

// decode reads XML or JSON, whichever the callback was set up with. A damaged block is not to pass for markup that
// nobody reads: text that is not UTF-8, directives, and text beside the elements are refused. WeCom sends none.
func decode(text []byte, into any) error {
	text = bytes.Trim(text, " \t\r\n")
	if !utf8.Valid(text) {
		return errors.New("it is not UTF-8")
	}
	if bytes.HasPrefix(text, []byte("{")) {
		return json.Unmarshal(text, into)
	}
	if !strings.HasPrefix(string(text[:min(len(text), 1)]), "<") {
		return errors.New("neither XML nor JSON")
	}
	depth := 0
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.RawToken()
		if err == io.EOF {
			return xml.Unmarshal(text, into)
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.Directive:
			return errors.New("there is a directive in it")
		case xml.CharData:
			if depth < 2 && len(bytes.TrimSpace(token)) > 0 {
				return errors.New("there is text beside the elements")
			}
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		}
	}
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
