package crawl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// Summary has the figures of a crawl: discovered = stored + duplicate + excluded + dead.
type Summary struct {
	Discovered     int64            `json:"discovered"`
	Stored         int64            `json:"stored"`
	Duplicate      int64            `json:"duplicate"`
	Excluded       int64            `json:"excluded"`
	LeftOut        leftOut          `json:"left_out,omitempty"` // those excluded, by why
	Dead           int64            `json:"dead"`
	Requests       int64            `json:"requests"`
	Retries        int64            `json:"retries"`
	Bytes          int64            `json:"bytes"`
	Status         map[string]int64 `json:"status"`
	ElapsedSeconds float64          `json:"elapsed_seconds"`
	Out            string           `json:"out"`
}

// leftOut is the account of links and requests that were left out, by why.
type leftOut map[string]left

// left is how many, and the first of them.
type left struct {
	Count int64  `json:"count"`
	URL   string `json:"url"`
}

func (l *leftOut) add(why string, links ...*url.URL) {
	for _, link := range links {
		l.count(why, left{1, link.String()})
	}
}

func (l *leftOut) count(why string, more left) {
	if *l == nil {
		*l = leftOut{}
	}
	if n := (*l)[why]; n.Count > 0 {
		more = left{n.Count + more.Count, n.URL}
	}
	(*l)[why] = more
}

// String lists the reasons, the most frequent one first: " (3 out of scope, 1 max-pages is reached)".
func (l leftOut) String() string {
	if len(l) == 0 {
		return ""
	}
	var parts []string
	for _, why := range slices.SortedFunc(maps.Keys(l), func(a, b string) int {
		return cmp.Or(cmp.Compare(l[b].Count, l[a].Count), strings.Compare(a, b))
	}) {
		parts = append(parts, fmt.Sprintf("%d %s", l[why].Count, why))
	}
	return " (" + strings.Join(parts, ", ") + ")"
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
	for err = errAgain; err == errAgain; {
		err = writePages(out, c.options.Extract.Names(), func(page pageWriter) error {
			d.changed = false
			if sum, last, err = c.read(ctx, p, r, d, page); err == nil && d.changed {
				return errAgain
			}
			return err
		})
	}
	sum.Out = shown(out)
	return sum, last, err
}

var errAgain = errors.New("a depth has changed")

// read writes every page, with the depth that is known for it.
func (c *crawler) read(ctx context.Context, p parts, r *run, d *depths, page pageWriter) (sum Summary, last int64,
	err error) {
	sum = Summary{Status: map[string]int64{}}
	seeds := int64(len(c.seeds))
	// Outcomes, links emitted, links left out, requests left out, redirects.
	var outcomes, found, outside, refused, moved int64
	without := func(why string, more left) {
		outside += more.Count
		sum.LeftOut.count(why, more)
	}
	last, err = scan(ctx, p, c.storeTopic(), c.from, func(o *outcome) error {
		d.add(o)
		outcomes++
		found += o.Found
		for why, more := range o.LeftOut {
			without(why, more)
		}
		if n := int64(len(o.Deeper)); n > 0 && d.tooDeep(o, c.options.Depth) {
			without(whyDeep, left{n, o.Deeper[0]})
		} else {
			found += n
		}
		switch {
		case o.Kind == kindPage && (c.options.MaxPages == 0 || sum.Stored < c.options.MaxPages):
			d.correct(o)
			sum.Stored++
			sum.Bytes += o.Page.Bytes
			sum.Status[strconv.Itoa(o.Page.Status)]++
			return page(o.Page, o.Markdown)
		case o.Kind == kindReplayed:
		case o.Kind == kindMoved:
			moved++
		default: // other processes stored enough at the same time, or it was left out
			refused++
			sum.LeftOut.count(cmp.Or(o.Why, whyFull), left{1, o.URL})
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
	if now.Acked-r.Base.Acked != outcomes {
		return sum, 0, fmt.Errorf("the pages do not add up: %d requests were carried out, and %d have a result",
			now.Acked-r.Base.Acked, outcomes)
	}
	if taken := r.taken(now, sum.Stored+refused+moved+sum.Dead); taken > 0 {
		refused += taken
		sum.LeftOut.count(whyTaken, left{Count: taken})
	}
	sum.Discovered, sum.Excluded = seeds+found+outside, outside+refused
	sum.Duplicate = seeds + found - sum.Stored - refused - sum.Dead
	sum.Retries = now.Retried - r.Base.Retried
	sum.Requests = sum.Stored + moved + sum.Dead + sum.Retries
	return sum, last, nil
}

// taken returns how many requests of a run were taken out of the store by hand, where so many came to an end. What was
// taken may be of an earlier run, too, and what was imported was no request of this one.
func (r *run) taken(now totals, ended int64) int64 {
	taken := now.Cancelled - r.Base.Cancelled + now.Purged - r.Base.Purged
	return max(0, min(taken, now.Appended-r.Base.Appended-ended))
}

// scan yields every result of a topic behind a cursor, and returns where it ended.
func scan(ctx context.Context, p parts, topic string, from int64, each func(*outcome) error) (last int64, err error) {
	for last = from; ; {
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
		_, err = scan(ctx, p, c.storeTopic(), c.from, learn)
		return d, 0, err
	}
	for d.changed = true; d.changed; {
		d.changed = false
		if _, err := scan(ctx, p, c.storeTopic(), c.from, learn); err != nil {
			return nil, 0, err
		}
	}
	before, err := totalsOf(ctx, p, c.requestTopic())
	if err != nil {
		return nil, 0, err
	}
	_, err = scan(ctx, p, c.storeTopic(), c.from, func(o *outcome) error {
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

// dead counts the dead letters of a run. Those of earlier runs may have died again since it began.
func dead(ctx context.Context, p parts, topic string, r *run) (n int64, err error) {
	for letter, err := range p.letters.Dead(ctx, store.DeadFilter{Topic: topic, Brief: true}) {
		if err != nil {
			return 0, err
		}
		if letter.Unique.Scope == scopeOf(r.ID) {
			n++
		}
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
		if err := store.Sleep(ctx, exportLease/50); err != nil {
			return nil, err
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
	for store.Sleep(ctx, exportLease/3) == nil {
		_, _ = p.marks.PutMarks(ctx, lock) // the next one is in time, too; and an export may be done twice
	}
}

// resolve resolves dead letters of earlier runs whose pages this one has stored.
func resolve(ctx context.Context, p parts, c *crawler, r *run) error {
	if !store.Can(p.store, store.CanResolve) {
		return nil
	}
	old := map[urlKey][]string{}
	for letter, err := range p.letters.Dead(ctx, store.DeadFilter{Topic: c.requestTopic(), Until: r.StartedAt,
		Resolved: new(false)}) {
		if err != nil {
			return fmt.Errorf("look for dead letters of earlier crawls: %w", err)
		}
		var q request
		if json.Unmarshal(letter.Body, &q) != nil || q.Sitemap > 0 {
			continue
		}
		if u, err := url.Parse(q.URL); err == nil {
			old[keyOf(u)] = append(old[keyOf(u)], letter.ID)
		}
	}
	if len(old) == 0 {
		return nil
	}
	var ids []string
	if _, err := scan(ctx, p, c.storeTopic(), c.from, func(o *outcome) error {
		if o.Kind == kindPage {
			ids = append(ids, old[o.key()]...)
		}
		return nil
	}); err != nil {
		return err
	}
	for part := range slices.Chunk(ids, pageSize) {
		if _, err := p.letters.Resolve(ctx, c.name, "a later crawl has stored the page", part...); err != nil {
			return fmt.Errorf("resolve dead letters of earlier crawls: %w", err)
		}
	}
	return nil
}

// settle ends a run whose pages are in their file: its results and the set of its URLs are removed.
func settle(ctx context.Context, p parts, c *crawler, r *run, sum *Summary, last int64) error {
	if err := resolve(ctx, p, c, r); err != nil {
		return err
	}
	r.Status, r.Summary = statusExported, sum
	if err := r.save(ctx, p, c.name); err != nil {
		return err
	}
	c.fetch.cache.prune()
	return clearRun(ctx, p, c.name, c.run, last)
}

// print writes the summary: one line, whatever the format.
func (s *Summary) print(in *pipeline.Invocation) error {
	if in.Output != "table" {
		return json.NewEncoder(in.Stdout).Encode(s)
	}
	_, err := fmt.Fprintf(in.Stdout,
		"%d pages in %s: %d links discovered, %d known already, %d excluded%s, %d dead; %d requests, %d retries, %d bytes, %.1f s\n",
		s.Stored, s.Out, s.Discovered, s.Duplicate, s.Excluded, s.LeftOut, s.Dead, s.Requests, s.Retries,
		s.Bytes, s.ElapsedSeconds)
	return err
}
