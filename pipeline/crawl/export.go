package crawl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// Summary has the figures of a crawl: discovered = stored + duplicate + excluded +
// dead.
type Summary struct {
	Discovered     int64            `json:"discovered"`
	Stored         int64            `json:"stored"`
	Duplicate      int64            `json:"duplicate"`
	Excluded       int64            `json:"excluded"`
	Dead           int64            `json:"dead"`
	Requests       int64            `json:"requests"`
	Retries        int64            `json:"retries"`
	Bytes          int64            `json:"bytes"`
	Status         map[string]int64 `json:"status"`
	ElapsedSeconds float64          `json:"elapsed_seconds"`
	Out            string           `json:"out"`
}

// pageSize is how many results are read at once.
const pageSize = 200

// export writes all pages of a run to a file, which appears when it is complete, and adds up the outcomes of all
// requests. It changes nothing in the store: after a crash it is repeated.
//
// It reads the results twice: depths are known when all links are. They are nearly all known after one reading, because
// a link is stored before what it leads to; a reading that still changes one is not the last.
func export(ctx context.Context, p parts, c *crawler, r *run, d *depths, out string) (sum Summary, last int64,
	err error) {
	for {
		w, err := create(out)
		if err != nil {
			return sum, 0, err
		}
		d.changed = false
		if sum, last, err = c.read(ctx, p, r, d, w); err != nil {
			w.abandon()
			return sum, 0, err
		}
		if !d.changed {
			sum.Out = shown(out)
			return sum, last, w.finish()
		}
		w.abandon()
	}
}

// read writes every page, with the depth that is known for it.
func (c *crawler) read(ctx context.Context, p parts, r *run, d *depths, w *writer) (sum Summary, last int64,
	err error) {
	sum = Summary{Status: map[string]int64{}}
	seeds := int64(len(c.seeds))
	var found, outside, refused, moved int64 // links emitted, links left out, requests left out, redirects
	last, err = scan(ctx, p, c.storeTopic(), func(o *outcome) error {
		d.add(o)
		found, outside = found+o.Found, outside+o.Excluded
		if n := int64(len(o.Deeper)); d.tooDeep(o, c.options.Depth) {
			outside += n
		} else {
			found += n
		}
		switch {
		case o.Kind == kindPage && (c.options.MaxPages == 0 || sum.Stored < c.options.MaxPages):
			d.correct(o)
			sum.Stored++
			sum.Bytes += o.Page.Bytes
			sum.Status[strconv.Itoa(o.Page.Status)]++
			return w.page(o.Page, o.Markdown)
		case o.Kind == kindReplayed:
		case o.Kind == kindMoved:
			moved++
		default: // other processes stored enough at the same time, or it was left out
			refused++
		}
		return nil
	})
	if err != nil {
		return sum, 0, err
	}
	if sum.Dead, err = dead(ctx, p, c.requestTopic(), r); err != nil {
		return sum, 0, err
	}
	now, err := totalsOf(ctx, p, c.requestTopic())
	if err != nil {
		return sum, 0, err
	}
	sum.Discovered, sum.Excluded = seeds+found+outside, outside+refused
	sum.Duplicate = seeds + found - sum.Stored - refused - sum.Dead
	sum.Retries = now.Retried - r.Base.Retried
	sum.Requests = sum.Stored + moved + sum.Dead + sum.Retries
	if ended := sum.Stored + refused + moved + sum.Dead; ended != now.Appended-r.Base.Appended {
		return sum, 0, fmt.Errorf("the pages do not add up: %d requests were stored, and %d came to an end",
			now.Appended-r.Base.Appended, ended)
	}
	return sum, last, nil
}

// scan yields every result of a topic, and returns where it ended.
func scan(ctx context.Context, p parts, topic string, each func(*outcome) error) (last int64, err error) {
	for {
		results, next, err := p.results.ScanResults(ctx, topic, last, pageSize)
		if err != nil {
			return 0, fmt.Errorf("read results: %w", err)
		}
		for i := range results {
			var o outcome
			d := json.NewDecoder(bytes.NewReader(results[i].Body))
			d.UseNumber() // fields keep numbers as pages write them
			if err := d.Decode(&o); err != nil {
				return 0, fmt.Errorf("result %s: %w", results[i].ID, err)
			}
			if err := each(&o); err != nil {
				return 0, err
			}
		}
		if last = next; len(results) == 0 {
			return last, nil
		}
	}
}

// deepen learns the depths of all pages, and appends requests for links that seemed too deep when they were found and
// are not. It returns how many those may be: the crawl goes on then.
func (c *crawler) deepen(ctx context.Context, p parts) (d *depths, more int, err error) {
	d = newDepths(c.seeds)
	learn := func(o *outcome) error { d.add(o); return nil }
	if c.options.Depth < 0 { // the reading that writes the pages finds whether this one was enough
		_, err = scan(ctx, p, c.storeTopic(), learn)
		return d, 0, err
	}
	for d.changed = true; d.changed; {
		d.changed = false
		if _, err := scan(ctx, p, c.storeTopic(), learn); err != nil {
			return nil, 0, err
		}
	}
	before, err := totalsOf(ctx, p, c.requestTopic())
	if err != nil {
		return nil, 0, err
	}
	_, err = scan(ctx, p, c.storeTopic(), func(o *outcome) error {
		if len(o.Deeper) == 0 || d.tooDeep(o, c.options.Depth) {
			return nil
		}
		var fresh []pawl.Message
		for _, text := range o.Deeper {
			if u, err := url.Parse(text); err == nil {
				fresh = append(fresh, c.visit(u, request{Depth: d.of[o.key()].n + 1}))
			}
		}
		return store.Send(ctx, p.store, fresh...) // those that are known are duplicates
	})
	if err != nil {
		return nil, 0, err
	}
	after, err := totalsOf(ctx, p, c.requestTopic())
	return d, int(after.Appended - before.Appended), err
}

// dead counts the dead letters of a run.
func dead(ctx context.Context, p parts, topic string, r *run) (n int64, err error) {
	for _, err := range p.letters.Dead(ctx, store.DeadFilter{Topic: topic, Since: r.StartedAt, Brief: true}) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// conclude exports a run and removes what is exported. One of several processes does it; the others get its summary.
func conclude(ctx context.Context, p parts, c *crawler, r *run, d *depths, out string) (*Summary, error) {
	lock := pawl.Mark{Scope: exportScope, Key: c.run, For: exportLease}
	for {
		receipts, err := p.marks.PutMarks(ctx, lock)
		if err != nil {
			return nil, fmt.Errorf("begin to export: %w", err)
		}
		now, err := load(ctx, p, c.name)
		if err != nil {
			return nil, err
		}
		if now == nil || now.ID != r.ID || now.Status == statusExported {
			return ended(now, r)
		}
		if receipts[0].Put {
			break
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(exportLease / 50):
		}
	}
	exporting, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { keepLock(exporting, p, lock) })
	defer func() {
		stop()
		done.Wait()
		free := pawl.Mark{Scope: lock.Scope, Key: lock.Key, If: pawl.AnyVersion, Remove: true}
		_, _ = p.marks.PutMarks(context.WithoutCancel(ctx), free) // else it expires
	}()
	sum, last, err := export(ctx, p, c, r, d, out)
	if err != nil {
		return nil, err
	}
	return &sum, settle(ctx, p, c, r, &sum, last)
}

// ended is the summary of a run that another process has exported.
func ended(now, r *run) (*Summary, error) {
	if now == nil || now.ID != r.ID || now.Summary == nil {
		return nil, &pipeline.Error{Code: pipeline.ExitConflict,
			What: "another process has ended this crawl, and begun a new one",
			Next: "look at what it has written"}
	}
	return now.Summary, nil
}

// The lock of the process that exports: a mark that expires when the process dies.
const (
	exportScope = "crawl/export"
	exportLease = 10 * time.Second
)

func keepLock(ctx context.Context, p parts, lock pawl.Mark) {
	lock.If = pawl.AnyVersion
	t := time.NewTicker(exportLease / 3)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			_, _ = p.marks.PutMarks(ctx, lock) // the next one is in time, too; and an export may be done twice
		}
	}
}

// settle ends a run whose pages are in their file: its results and the set of its URLs are removed.
func settle(ctx context.Context, p parts, c *crawler, r *run, sum *Summary, last int64) error {
	r.Status, r.Summary = statusExported, sum
	if err := r.save(ctx, p, c.name); err != nil {
		return err
	}
	if _, err := p.results.RemoveResults(ctx, c.storeTopic(), last); err != nil {
		return fmt.Errorf("remove results: %w", err)
	}
	c.fetch.cache.prune()
	return p.marks.Forget(ctx, scopeOf(c.run))
}

// writer writes pages to a file beside the one that it replaces at the end.
type writer struct {
	out, part string
	buffer    *bufio.Writer
	page      func(r *Record, markdown string) error
	flush     func() error
	close     func() error // makes the file durable; nil: it is closed
	replace   func() error // puts the part in its place; nil: a rename does
}

// formatOf refuses outputs without a writer.
func formatOf(out string) error {
	if _, ok := databaseOf(out); ok {
		return nil
	}
	if isFolder(out) {
		return checkFolder(out)
	}
	switch strings.ToLower(filepath.Ext(out)) {
	case ".jsonl", ".csv", ".db":
		if !strings.Contains(out, "://") {
			return nil
		}
	}
	return fmt.Errorf("%q is no folder, ends neither in .jsonl nor in .csv nor in .db, and is no URL of a database: "+
		"sqlite:FILE or postgres://…", shown(out))
}

func create(out string) (*writer, error) {
	w := &writer{out: out, part: out + ".part"}
	if to, ok := databaseOf(out); ok {
		w.part, w.replace = "", func() error { return nil }
		return w, w.table(to)
	}
	if isFolder(out) {
		return w, w.folder()
	}
	if strings.EqualFold(filepath.Ext(out), ".db") {
		return w, w.databaseFile()
	}
	f, err := os.OpenFile(w.part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, cannotWrite(err)
	}
	w.close = func() error { return errors.Join(w.buffer.Flush(), f.Sync(), f.Close()) }
	w.buffer = bufio.NewWriterSize(f, 256<<10)
	if strings.EqualFold(filepath.Ext(out), ".csv") {
		w.csv()
		return w, nil
	}
	e := json.NewEncoder(w.buffer)
	e.SetEscapeHTML(false)
	w.page, w.flush = func(r *Record, _ string) error { return e.Encode(r) }, func() error { return nil }
	return w, nil
}

// columns of a CSV file, in the order of the JSON.
var columns = []string{"url", "final_url", "status", "depth", "title", "content_type", "charset", "bytes", "sha256",
	"fetched_at", "etag", "links", "fields"}

// fieldsText are the fields as JSON, or nothing where there are none.
func (r *Record) fieldsText() (string, error) {
	if len(r.Fields) == 0 {
		return "", nil
	}
	text, err := json.Marshal(r.Fields)
	return string(text), err
}

func (w *writer) csv() {
	c := csv.NewWriter(w.buffer)
	_ = c.Write(columns) // it goes into a buffer; errors come with flush
	w.page = func(r *Record, _ string) error {
		fields, err := r.fieldsText()
		if err != nil {
			return err
		}
		return c.Write([]string{
			r.URL, r.FinalURL, strconv.Itoa(r.Status), strconv.FormatInt(r.Depth, 10), r.Title,
			r.ContentType, r.Charset,
			strconv.FormatInt(r.Bytes, 10), r.SHA256, r.FetchedAt.Format(time.RFC3339Nano), r.ETag,
			strconv.Itoa(r.Links), fields,
		})
	}
	w.flush = func() error { c.Flush(); return c.Error() }
}

// finish makes the file appear, durably.
func (w *writer) finish() error {
	err := errors.Join(w.flush(), w.close())
	w.close = nil
	switch {
	case err != nil:
	case w.replace != nil:
		err = w.replace()
	default:
		err = os.Rename(w.part, w.out)
	}
	if err != nil {
		return &pipeline.Error{What: "cannot write the pages", Err: err,
			Next: "make room; the pages stay in the store until they are written: go on with --resume"}
	}
	return nil
}

// abandon removes what was not finished.
func (w *writer) abandon() {
	if w.close != nil {
		_ = w.close()
		_ = os.RemoveAll(w.part)
	}
}

// print writes the summary: one line, whatever the format.
func (s *Summary) print(in *pipeline.Invocation) error {
	if in.Output != "table" {
		return json.NewEncoder(in.Stdout).Encode(s)
	}
	return s.text(in.Stdout)
}

func (s *Summary) text(w io.Writer) error {
	_, err := fmt.Fprintf(w,
		"%d pages in %s: %d links discovered, %d known already, %d excluded, %d dead; %d requests, %d retries, %d bytes, %.1f s\n",
		s.Stored, s.Out, s.Discovered, s.Duplicate, s.Excluded, s.Dead, s.Requests, s.Retries, s.Bytes,
		s.ElapsedSeconds)
	return err
}
