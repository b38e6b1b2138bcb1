package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// verifier compares an index with its source.
type verifier struct{ *projection }

// comparison is the result of comparing the table with an index.
type comparison struct {
	Checked int64  `json:"checked"`
	Missing int64  `json:"missing"` // in the index
	Stale   int64  `json:"stale"`   // an older version, or the same with another content
	Extra   int64  `json:"extra"`   // not in the table
	Verdict string `json:"verdict"`

	Documents []string `json:"-"` // ids of some that differ
}

const mostNamed = 5 // ids of a comparison

func (c comparison) String() string {
	text := fmt.Sprintf("%d missing, %d stale, %d extra", c.Missing, c.Stale, c.Extra)
	if len(c.Documents) > 0 {
		text += " (such as " + strings.Join(c.Documents, ", ") + ")"
	}
	return text
}

// Verdicts.
const (
	equal     = "equal"
	different = "different"
)

const (
	verifyPage = 1000
	settleWait = 30 * time.Second // for changes under way, before a difference is one
	settleLook = 200 * time.Millisecond
)

var errNoSource = errors.New("the projection has no source to compare the index with")

// compare compares the table with an index: all of it, or a sample. What differs is looked at again when the
// changes that were waiting have settled.
func (p verifier) compare(ctx context.Context, index string, sample int, progress func(checked int64)) (c comparison,
	err error) {
	if p.source == nil {
		return c, errNoSource
	}
	if err := p.search.refresh(ctx, index); err != nil {
		return c, err
	}
	var doubtful []string
	look := func(rows []sourceRow) error {
		differ, err := p.differing(ctx, index, rows)
		doubtful = append(doubtful, differ...)
		c.Checked += int64(len(rows))
		progress(c.Checked)
		return err
	}
	if sample > 0 {
		rows, err := p.source.sample(ctx, p.rows, sample)
		if err == nil {
			err = look(rows)
		}
		if err != nil {
			return c, err
		}
	} else if err := p.pages(ctx, look); err != nil {
		return c, err
	}
	seen := 0
	err = p.search.scroll(ctx, index, func(ids []string) error {
		if seen += len(ids); sample > 0 && seen > max(sample, verifyPage) {
			return errEnough
		}
		known, err := p.source.find(ctx, p.rows, ids)
		for _, id := range ids {
			if _, ok := known[id]; !ok {
				doubtful = append(doubtful, id)
			}
		}
		return err
	})
	if err != nil && !errors.Is(err, errEnough) {
		return c, err
	}
	return c, p.decide(ctx, index, doubtful, &c)
}

var errEnough = errors.New("enough")

func (p verifier) pages(ctx context.Context, each func([]sourceRow) error) error {
	for after := (*string)(nil); ; {
		rows, err := p.source.page(ctx, p.rows, after, verifyPage)
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := each(rows); err != nil {
			return err
		}
		after = &rows[len(rows)-1].key
	}
}

// differing returns the ids of rows whose document in the index is missing or different.
func (p verifier) differing(ctx context.Context, index string, rows []sourceRow) (ids []string, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	asked := make([]string, len(rows))
	for i := range rows {
		asked[i] = rows[i].id
	}
	docs, err := p.search.get(ctx, index, asked)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if !docs[i].Found || p.older(&docs[i], &rows[i]) {
			ids = append(ids, rows[i].id)
		}
	}
	return ids, nil
}

// older reports whether a document of the index is not what the table has.
func (p verifier) older(d *document, r *sourceRow) bool {
	return p.source.versioned && d.Version != r.version || !sameJSON(d.Source, r.doc)
}

// decide looks at what differed once more, when the changes that were waiting have settled.
func (p verifier) decide(ctx context.Context, index string, doubtful []string, c *comparison) error {
	c.Verdict = equal
	if len(doubtful) == 0 {
		return nil
	}
	if err := p.settle(ctx); err != nil {
		return err
	}
	slices.Sort(doubtful)
	for ids := range slices.Chunk(slices.Compact(doubtful), verifyPage) {
		rows, err := p.source.find(ctx, p.rows, ids)
		if err != nil {
			return err
		}
		docs, err := p.search.get(ctx, index, ids)
		if err != nil {
			return err
		}
		for i, id := range ids {
			row, there := rows[id]
			switch {
			case there && !docs[i].Found:
				c.Missing++
			case there && p.older(&docs[i], &row):
				c.Stale++
			case !there && docs[i].Found:
				c.Extra++
			default:
				continue
			}
			if len(c.Documents) < mostNamed {
				c.Documents = append(c.Documents, cut(id, 100))
			}
		}
	}
	if c.Missing+c.Stale+c.Extra > 0 {
		c.Verdict = different
	}
	return nil
}

// settle waits until the changes that wait now have settled, or for a while.
func (p verifier) settle(ctx context.Context) error {
	began := time.Now()
	for time.Since(began) < settleWait {
		s, err := p.readOutbox(ctx)
		if err != nil {
			return err
		}
		if s.pending+s.processing == 0 || s.oldest < time.Since(began) {
			return nil
		}
		if err := store.Sleep(ctx, settleLook); err != nil {
			return err
		}
	}
	return nil
}
