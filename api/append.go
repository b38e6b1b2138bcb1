package api

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/wire"
	"github.com/pawl-dev/pawl/store"
)

// receipt is the answer to one message, as JSON.
type receipt struct {
	ID          string `json:"id"`
	DuplicateOf string `json:"duplicate_of,omitempty"`
	Error       string `json:"error,omitempty"`
}

type receipts struct {
	Receipts []receipt `json:"receipts"`
}

// appendMessages is POST /v1/messages and /v1/topics/{topic}/messages.
func (x *exchange) appendMessages() error {
	body, err := x.body()
	if err != nil {
		return err
	}
	msgs, one, err := x.messages(body)
	if err != nil {
		return err
	}
	for i := range msgs {
		if err := x.needTopic(msgs[i].Topic); err != nil {
			return err
		}
	}
	if len(msgs) == 0 {
		return x.answer(http.StatusOK, receipts{Receipts: []receipt{}})
	}
	got, err := x.append(msgs, body)
	if err != nil {
		return appendFailed(err)
	}
	if err := allFull(got); err != nil {
		return err
	}
	if one {
		return x.answerOne(&got[0])
	}
	all := receipts{Receipts: make([]receipt, len(got))}
	for i := range got {
		all.Receipts[i] = receipt{ID: got[i].ID, DuplicateOf: got[i].DuplicateOf}
		if got[i].Err != nil {
			all.Receipts[i].Error = got[i].Err.Error()
		}
	}
	return x.answer(http.StatusOK, all)
}

func (x *exchange) answerOne(r *store.Receipt) error {
	switch {
	case r.Err != nil:
		return appendFailed(r.Err)
	case r.DuplicateOf != "":
		return x.answer(http.StatusOK, receipt{ID: r.ID, DuplicateOf: r.DuplicateOf})
	}
	return x.answer(http.StatusCreated, receipt{ID: r.ID})
}

// appendFailed says of an append of unknown outcome how to make it known.
func appendFailed(err error) error {
	p := problemOf(err)
	if p.Status == http.StatusServiceUnavailable {
		p.Detail = "it is not known whether the messages are stored: " + p.Detail
		p.Next = "repeat the request with the same Idempotency-Key; without one, messages without an id may be stored twice"
	}
	return p
}

// allFull is the refusal that all receipts have, if their topics are full; nil if not.
func allFull(got []store.Receipt) error {
	for i := range got {
		if !store.IsTopicFull(got[i].Err) {
			return nil
		}
	}
	return got[0].Err
}

// messages reads what is to be appended; one: not as a list. Nothing is, if anything is invalid.
func (x *exchange) messages(body []byte) (msgs []pawl.Message, one bool, err error) {
	kind, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil && x.r.Header.Get("Content-Type") != "" {
		return nil, false, unsupported("Content-Type cannot be read: " + err.Error())
	}
	var drafts [][]byte
	switch kind {
	case jsonType:
		trimmed := bytes.TrimSpace(body)
		if one = !bytes.HasPrefix(trimmed, []byte("[")); one {
			drafts = [][]byte{trimmed}
		} else if drafts, err = wire.Elements(trimmed, MaxItems+1); err != nil {
			return nil, false, malformed(err.Error())
		}
	case "application/x-ndjson":
		for line := range bytes.SplitSeq(body, []byte("\n")) {
			if line = bytes.TrimSpace(line); len(line) > 0 && len(drafts) <= MaxItems {
				drafts = append(drafts, line)
			}
		}
	default:
		m, err := x.rawMessage(body, kind)
		return []pawl.Message{m}, true, err
	}
	if len(drafts) > MaxItems {
		return nil, one, tooLarge(fmt.Sprintf("more than %d messages in a request", MaxItems))
	}
	if err := x.hold(int64(len(body))); err != nil { // of which messages are copies
		return nil, one, err
	}
	msgs, err = x.drafts(drafts, kind, one)
	return msgs, one, err
}

func (x *exchange) drafts(drafts [][]byte, kind string, one bool) ([]pawl.Message, error) {
	topic, now := x.r.PathValue("topic"), time.Now()
	msgs, all := make([]pawl.Message, 0, len(drafts)), []wire.Fault(nil)
	for i, data := range drafts {
		if len(all) > maxFaults {
			break
		}
		path := ""
		if !one {
			path = "[" + strconv.Itoa(i) + "]."
		}
		if first := bytes.TrimLeft(data, " \t\r\n"); len(first) > 0 && first[0] != '{' && wire.Valid(first) {
			all = append(all, wire.Fault{Field: strings.TrimSuffix(path, "."), Why: "must be an object"})
			continue
		}
		d, faults, err := wire.ReadMessage(data, kind != jsonType)
		if err != nil {
			return nil, malformed(strings.TrimSpace(strings.TrimSuffix(path, ".") + " " + err.Error()))
		}
		if topic != "" && d.Topic != "" && d.Topic != topic {
			faults = append(faults, wire.Fault{Field: "topic", Why: "is not the one of the path, " + topic})
		}
		m := d.At(now)
		if topic != "" {
			m.Topic = topic
		}
		if len(faults) == 0 {
			faults = x.unfit(&m)
		} else if !slices.ContainsFunc(faults, func(f wire.Fault) bool { return f.Field == "topic" }) {
			faults = append(faults, faultsIn(pawl.ValidTopic(m.Topic))...)
		}
		for _, f := range faults {
			all = append(all, wire.Fault{Field: path + f.Field, Why: f.Why})
		}
		msgs = append(msgs, m)
	}
	if err := invalid(all); err != nil {
		return nil, err
	}
	for i := range msgs {
		x.traced(&msgs[i])
	}
	return msgs, nil
}

// unfit is what this store does not take of a message.
func (x *exchange) unfit(m *pawl.Message) []wire.Fault {
	err := m.Validate()
	if err == nil {
		err = store.Fit(x.api.store, m)
	}
	if faults := faultsIn(err); err == nil || len(faults) > 0 {
		return faults
	}
	return []wire.Fault{{Field: "", Why: err.Error()}}
}

// traced gives a message the trace of the request.
func (x *exchange) traced(m *pawl.Message) {
	parent := x.r.Header.Get(dispatch.TraceParent)
	if !validTrace(parent) || m.Headers[dispatch.TraceParent] != "" {
		return
	}
	if m.Headers == nil {
		m.Headers = map[string]string{}
	}
	m.Headers[dispatch.TraceParent] = parent
	if state := x.r.Header.Get(dispatch.TraceState); state != "" && len(state) <= 512 {
		m.Headers[dispatch.TraceState] = state
	}
}

// validTrace reports whether a header is a traceparent (W3C Trace Context).
func validTrace(s string) bool {
	if len(s) != 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	_, err := hex.DecodeString(s[:2] + s[3:35] + s[36:52] + s[53:])
	return err == nil
}

// rawMessage is a message whose body is that of the request; the rest is in headers.
func (x *exchange) rawMessage(body []byte, kind string) (pawl.Message, error) {
	m := pawl.Message{Topic: x.r.PathValue("topic"), Body: body}
	var faults []wire.Fault
	for _, name := range slices.Sorted(maps.Keys(x.r.Header)) {
		values := x.r.Header[name]
		field, ours := strings.CutPrefix(name, "Pawl-")
		if !ours || field == "Reason" {
			continue
		}
		why := "is given more than once"
		if len(values) == 1 {
			alone := pawl.Message{Topic: "any"}
			if why = x.setField(&alone, field, values[0]); why == "" {
				_ = x.setField(&m, field, values[0])
				for _, f := range x.unfit(&alone) {
					why = f.Why
				}
			}
		}
		if why != "" {
			faults = append(faults, wire.Fault{Field: name, Why: why})
		}
	}
	if len(faults) == 0 {
		faults = x.unfit(&m)
	} else if x.r.Header.Get("Pawl-Topic") == "" {
		faults = append(faults, faultsIn(pawl.ValidTopic(m.Topic))...)
	}
	if err := invalid(faults); err != nil {
		return m, err
	}
	if kind != "" && m.Headers["content-type"] == "" {
		setHeader(&m, "content-type", x.r.Header.Get("Content-Type"))
	}
	x.traced(&m)
	return m, nil
}

// setField gives a message what the header Pawl-NAME says, or returns what is wrong with that.
func (x *exchange) setField(m *pawl.Message, name, value string) (why string) {
	header, isHeader := strings.CutPrefix(name, "Header-")
	f, err := strconv.ParseFloat(value, 64)
	if name == "Delay" {
		f = max(f, 0) // the time that it goes on at has passed
	}
	span, good := seconds(f), err == nil && inTime(f)
	switch {
	case isHeader:
		setHeader(m, strings.ToLower(header), value)
	case name == "Id":
		m.ID = value
	case name == "Key":
		m.Key = []byte(value)
	case name == "Unique":
		m.Unique.Key = value
	case name == "Topic" && x.r.PathValue("topic") == "":
		m.Topic = value
	case name == "Priority":
		if m.Priority, err = strconv.Atoi(value); err != nil {
			return "is not a whole number"
		}
	case name == "Delay" && good:
		m.Delay = span
	case name == "Retry-For" && good && span > 0:
		m.RetryFor(span)
	case name == "Timeout" && good && span > 0:
		m.LimitTime(span)
	case name == "Attempts" && err == nil:
		setHeader(m, pawl.HeaderAttempts, value)
	case name == "Attempts":
		return "is not a number"
	case name == "Delay" || name == "Retry-For" || name == "Timeout":
		return "is not a number of seconds up to " + strconv.FormatFloat(pawl.MaxDelay.Seconds(), 'f', -1, 64)
	default:
		return "is not known here"
	}
	return ""
}

func setHeader(m *pawl.Message, name, value string) {
	if m.Headers == nil {
		m.Headers = map[string]string{}
	}
	m.Headers[name] = value
}
