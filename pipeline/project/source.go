package project

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/pipeline"
)

// source is the table that the documents come from.
type source struct {
	inner     string
	versioned bool
}

// newSource makes the subquery in which the expressions are evaluated, so that the names of the result are ours.
func newSource(s pipeline.Section) *source {
	version := "0"
	if s.Has("version") {
		version = s.Text("version")
	}
	return &source{versioned: s.Has("version"), inner: fmt.Sprintf(
		"SELECT (%s) AS pawl_key, (%s) AS pawl_id, (%s) AS pawl_version, (%s) AS pawl_doc FROM %s",
		s.Text("key"), s.Text("doc_id"), version, s.Text("doc"), s.Text("table"))}
}

// sourceRow is a document as the table has it.
type sourceRow struct {
	key, id string
	version int64
	doc     []byte
}

// errRow is wrapped by errors of a row that cannot be a document.
var errRow = errors.New("a row of the source")

// selected gives the columns names of their own: PostgreSQL would sort by the text of a key otherwise.
const selected = "SELECT CAST(pawl_key AS TEXT) AS k, CAST(pawl_id AS TEXT) AS i, CAST(pawl_version AS TEXT) AS v, CAST(pawl_doc AS TEXT) AS d"

func (s *source) query(ctx context.Context, rows Rows, rest string, args ...any) (all []sourceRow, err error) {
	err = rows.Rows(ctx, func(row []*string) error {
		if row[0] == nil || row[1] == nil || *row[1] == "" || row[3] == nil {
			return fmt.Errorf("%w has no key, id or document (key %s, id %q)", errRow, text(row[0]), text(row[1]))
		}
		r := sourceRow{key: *row[0], id: *row[1], doc: []byte(*row[3])}
		if row[2] != nil {
			v, err := strconv.ParseInt(*row[2], 10, 64)
			if err != nil {
				return fmt.Errorf("%w has a version that is no whole number (id %q): %w", errRow, r.id, err)
			}
			r.version = v
		}
		all = append(all, r)
		return nil
	}, selected+" FROM ("+s.inner+") pawl_source "+rest, args...)
	return all, err
}

func text(s *string) string {
	if s == nil {
		return "NULL"
	}
	return *s
}

// try evaluates the expressions without reading rows. A source that is not configured is no error.
func (s *source) try(ctx context.Context, rows Rows) error {
	if s == nil {
		return nil
	}
	_, err := s.query(ctx, rows, "LIMIT 0")
	return err
}

// page returns the rows that follow a key, in its order.
func (s *source) page(ctx context.Context, rows Rows, after *string, n int) ([]sourceRow, error) {
	order := " ORDER BY pawl_key LIMIT " + strconv.Itoa(n)
	if after == nil {
		return s.query(ctx, rows, order)
	}
	return s.query(ctx, rows, "WHERE pawl_key > $1"+order, *after)
}

func (s *source) sample(ctx context.Context, rows Rows, n int) ([]sourceRow, error) {
	return s.query(ctx, rows, "ORDER BY random() LIMIT "+strconv.Itoa(n))
}

// find returns the rows of documents, by id.
func (s *source) find(ctx context.Context, rows Rows, ids []string) (map[string]sourceRow, error) {
	found := make(map[string]sourceRow, len(ids))
	const most = 200
	for part := range slices.Chunk(ids, most) {
		args, marks := make([]any, len(part)), make([]string, len(part))
		for i, id := range part {
			args[i], marks[i] = id, "$"+strconv.Itoa(i+1)
		}
		all, err := s.query(ctx, rows, "WHERE CAST(pawl_id AS TEXT) IN ("+strings.Join(marks, ",")+")", args...)
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			found[r.id] = r
		}
	}
	return found, nil
}

func (s *source) count(ctx context.Context, rows Rows) (n int64, err error) {
	err = rows.Rows(ctx, func(row []*string) error {
		n, err = strconv.ParseInt(text(row[0]), 10, 64)
		return err
	}, "SELECT count(*) FROM ("+s.inner+") pawl_source")
	return n, err
}

// sameJSON reports whether two texts are the same document: order of members, space and the form of numbers aside.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	for text, into := range map[*[]byte]*any{&a: &x, &b: &y} {
		d := json.NewDecoder(bytes.NewReader(*text))
		d.UseNumber()
		if d.Decode(into) != nil {
			return false
		}
	}
	return same(x, y)
}

func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !same(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		if !ok || a == b {
			return ok
		}
		if len(a) > 100 || len(b) > 100 { // exponents may be large
			return false
		}
		x, okX := new(big.Float).SetPrec(256).SetString(string(a))
		y, okY := new(big.Float).SetPrec(256).SetString(string(b))
		return okX && okY && x.Cmp(y) == 0
	default:
		return a == b
	}
}
