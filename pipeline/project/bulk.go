package project

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl"
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
	err   error
	stale bool // the index has that version or a higher one
}

// bulk writes items in requests of at most so many bytes, halving those that are too large for the server. It returns a
// result for each; whole is the first failure of a whole request, which is the result of each of its items, too.
func (s *search) bulk(ctx context.Context, items []action, most int64) (results []result, whole error) {
	results = make([]result, 0, len(items))
	for len(items) > 0 {
		n, size := 0, int64(0)
		for n < len(items) && (n == 0 || size+int64(items[n].size()) <= most) {
			size += int64(items[n].size())
			n++
		}
		part, err := s.halving(ctx, items[:n])
		if err != nil && whole == nil {
			whole = err
		}
		results, items = append(results, part...), items[n:]
	}
	return results, whole
}

// halving writes items in one request. One that the server refuses for its size or its content is split in halves,
// down to the items that cause it.
func (s *search) halving(ctx context.Context, items []action) ([]result, error) {
	results, err := s.request(ctx, items)
	if err == nil {
		return results, nil
	}
	a, ok := errors.AsType[*answerError](err)
	refused := ok && (a.status == http.StatusRequestEntityTooLarge || a.status == http.StatusBadRequest)
	if refused && len(items) > 1 {
		half := len(items) / 2
		first, err := s.halving(ctx, items[:half])
		second, err2 := s.halving(ctx, items[half:])
		return append(first, second...), cmp.Or(err, err2)
	}
	err = classify(err)
	results = slices.Repeat([]result{{err: err}}, len(items))
	if refused {
		return results, nil
	}
	return results, err
}

// itemAnswer is what is said of one item.
type itemAnswer struct {
	ID     string          `json:"_id"`
	Status int             `json:"status"`
	Result string          `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (s *search) request(ctx context.Context, items []action) ([]result, error) {
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
	if err := s.call(ctx, http.MethodPost, "/_bulk", body.Bytes(), &answer); err != nil {
		return nil, err
	}
	if len(answer.Items) != len(items) {
		return nil, fmt.Errorf("the answer has %d items for %d", len(answer.Items), len(items))
	}
	results := make([]result, len(items))
	for i := range items {
		a := answer.Items[i].Index
		if items[i].remove {
			a = answer.Items[i].Delete
		}
		if a == nil || a.ID != items[i].id {
			return nil, fmt.Errorf("item %d of the answer is not about document %q", i, items[i].id)
		}
		results[i] = a.result()
	}
	return results, nil
}

func (a *itemAnswer) result() result {
	switch {
	case a.Status == http.StatusConflict:
		return result{stale: true}
	case a.Status >= 200 && a.Status < 300, a.Status == http.StatusNotFound && a.Result == "not_found":
		return result{}
	}
	e := &answerError{status: a.Status}
	e.kind, e.reason = cause(a.Error)
	return result{err: classify(e)}
}

// change is a message of the outbox.
type change struct {
	d       *pawl.Delivery
	id      string
	version int64
	remove  bool
}

// parseChange reads a message. One that is not a change is a permanent failure.
func parseChange(d *pawl.Delivery) (change, error) {
	c := change{d: d, id: string(d.Key), remove: d.Headers["op"] == "delete"}
	version, err := strconv.ParseInt(d.Headers["version"], 10, 64)
	if err == nil && (c.id == "" || !c.remove && len(d.Body) == 0) {
		err = errors.New("no document")
	}
	if err != nil {
		return c, pawl.Permanent(pawl.OfKind(pawl.KindDecode, fmt.Errorf("this is not a change of a document: %w", err)))
	}
	c.version = version
	return c, nil
}
