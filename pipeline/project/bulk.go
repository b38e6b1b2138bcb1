package project

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/observe/trace"
)

// action is one item of a bulk request.
type action struct {
	index   string // an alias, and it must be: else a lost one would become an index by accident
	id      string
	version int64
	again   bool // the same version may be written again: for rebuilds
	remove  bool
	doc     []byte
}

// append writes the lines of the item.
func (a *action) append(b *bytes.Buffer) {
	verb, kind := "index", "external"
	if a.remove {
		verb = "delete"
	}
	if a.again {
		kind = "external_gte"
	}
	id, _ := json.Marshal(a.id) // texts always marshal
	index, _ := json.Marshal(a.index)
	line := append(b.AvailableBuffer(), `{"`+verb+`":{"_index":`...)
	line = append(append(append(line, index...), `,"_id":`...), id...)
	line = strconv.AppendInt(append(line, `,"version":`...), a.version, 10)
	b.Write(append(line, `,"version_type":"`+kind+`","require_alias":true}}`+"\n"...))
	if a.remove {
		return
	}
	if bytes.IndexByte(a.doc, '\n') < 0 || json.Compact(b, a.doc) != nil {
		b.Write(a.doc)
	}
	b.WriteByte('\n')
}

// size is about how many bytes the item has.
func (a *action) size() int { return len(a.doc) + len(a.id) + len(a.index) + 120 }

// result of an item. Without an error it is written, or stale: the index has what is newer.
type result struct {
	err    error
	stale  bool // the index has that version or a higher one
	alone  bool // its request got no answer, or was refused, without another item in it
	unsent bool // it was not sent; err says why
}

// itemAnswer is what is said of one item.
type itemAnswer struct {
	ID     string          `json:"_id"`
	Status int             `json:"status"`
	Result string          `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// request writes items. If careful, the server is asked first whether it wants them.
func (s *search) request(ctx context.Context, items []action, careful bool) ([]result, error) {
	var body bytes.Buffer
	size := 0
	for i := range items {
		size += items[i].size()
	}
	body.Grow(size)
	for i := range items {
		items[i].append(&body)
	}
	var answer struct {
		Items []struct {
			Index  *itemAnswer `json:"index"`
			Delete *itemAnswer `json:"delete"`
		} `json:"items"`
	}
	id := pawl.NewID()
	ctx, step := trace.Start(ctx, "bulk", slog.String("request_id", id), slog.Int("bytes", body.Len()))
	err := s.callAs(ctx, id, careful, http.MethodPost, "/_bulk", body.Bytes(), &answer)
	step.End(err)
	if err != nil {
		return nil, err
	}
	if len(answer.Items) != len(items) {
		return nil, odd("it has %d items for %d (request %s)", len(answer.Items), len(items), id)
	}
	results := make([]result, len(items))
	for i := range items {
		a := answer.Items[i].Index
		if items[i].remove {
			a = answer.Items[i].Delete
		}
		if a == nil || a.ID != items[i].id {
			return nil, odd("item %d is not about document %q (request %s)", i, items[i].id, id)
		}
		results[i] = a.result(items[i].remove, id)
	}
	return results, nil
}

// result takes a document for written only where the answer says so.
func (a *itemAnswer) result(remove bool, request string) result {
	e := &answerError{status: a.Status, request: request}
	e.kind, e.reason = cause(a.Error)
	switch failed := len(a.Error) > 0 && string(a.Error) != "null"; {
	case a.Status == http.StatusConflict && strings.Contains(e.kind, "version_conflict"):
		return result{stale: true}
	case !failed && a.Status >= 200 && a.Status < 300,
		!failed && a.Status == http.StatusNotFound && a.Result == "not_found" && remove:
		return result{}
	case !failed && a.Status < 400:
		e.reason = "the answer does not say what became of the document"
	}
	return result{err: classify(e)}
}

// change is a message of the outbox.
type change struct {
	d       *pawl.Delivery
	id      string
	version int64
	remove  bool
}

// unfit says why a document cannot be sent.
func unfit(id string, doc []byte) error {
	switch {
	case !utf8.ValidString(id): // JSON would change it, and the answer would be about another document
		return fmt.Errorf("its id %q is not UTF-8", id)
	case bytes.IndexByte(doc, '\n') >= 0 && !json.Valid(doc): // each would be read as an action of its own
		return errors.New("it has several lines and is no JSON")
	}
	return nil
}

// parseChange reads a message. One that is not a change is a permanent failure.
func parseChange(d *pawl.Delivery) (change, error) {
	c := change{d: d, id: string(d.Key), remove: d.Headers["op"] == "delete"}
	version, err := strconv.ParseInt(d.Headers["version"], 10, 64)
	switch {
	case err != nil:
	case c.id == "" || !c.remove && len(d.Body) == 0:
		err = errors.New("no document")
	case c.remove:
		err = unfit(c.id, nil)
	default:
		err = unfit(c.id, d.Body)
	}
	if err != nil {
		return c, pawl.Permanent(pawl.OfKind(pawl.KindDecode, fmt.Errorf("this is not a change of a document: %w", err)))
	}
	c.version = version
	return c, nil
}
