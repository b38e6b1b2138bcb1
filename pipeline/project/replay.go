package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

func replayFlags() []pipeline.Flag {
	return []pipeline.Flag{
		{Name: "class", Type: pipeline.Choice, Choices: classes[:], Doc: "only of this `CLASS` of errors"},
		{Name: "since", Type: pipeline.Moment,
			Doc: "only that died at or after `TIME`: 2026-11-22T10:00:00Z, or a duration ago such as 2d"},
		{Name: "until", Type: pipeline.Moment, Doc: "only that died before `TIME`"},
		{Name: "doc", Doc: "only of the document with this `ID`"},
		{Name: "keep-attempts", Type: pipeline.Bool, Doc: "keep the count of the attempts that they had"},
		{Name: "rate", Type: pipeline.Rate, Doc: "at most this `RATE`, such as 100/s"},
	}
}

func replayCommand(ctx context.Context, in *pipeline.Invocation, p *projection) error {
	f := store.DeadFilter{Topic: p.topic, Since: in.Flags.Time("since"), Until: in.Flags.Time("until")}
	if doc := in.Flags.Text("doc"); doc != "" {
		f.Key = []byte(doc)
	}
	r := replay{projection: p, class: in.Flags.Text("class"), keep: in.Flags.Bool("keep-attempts"),
		rate: in.Flags.Number("rate"), dry: in.DryRun, who: in.Who}
	err := r.all(ctx, f)
	if r.replayed > 0 {
		err = errors.Join(err, in.Audit(ctx, p.store, "project replay", p.projection, r.replayed,
			fmt.Sprintf("%d of %d", r.replayed, r.matched)))
	}
	if err != nil {
		return err
	}
	return in.Print(map[string]int{"matched": r.matched, "replayed": r.replayed},
		"%d dead letters match, %d replayed\n", r.matched, r.replayed)
}

// replay tries dead letters again.
type replay struct {
	*projection
	class             string
	keep, dry         bool
	rate              float64
	who               string
	matched, replayed int
}

const replayPage = 200

func (r *replay) all(ctx context.Context, f store.DeadFilter) error {
	letters, ok := store.As[store.DeadLetters](r.store)
	if !ok {
		return errors.New("the store has no dead letters to list")
	}
	if f.Until.IsZero() { // what dies again meanwhile is not tried again
		now, err := r.entries.Clock(ctx)
		if err != nil {
			return err
		}
		f.Until = now.Add(time.Millisecond)
	}
	f.Resolved = new(false) // what was dealt with in another way is over
	var chosen []store.Record
	for rec, err := range letters.Dead(ctx, f) {
		if err != nil {
			return err
		}
		if r.class != "" && classOf(rec.Kind) != r.class {
			continue
		}
		r.matched++
		if chosen = append(chosen, rec); len(chosen) == replayPage {
			if err := r.page(ctx, letters, chosen); err != nil {
				return err
			}
			chosen = nil
		}
	}
	return r.page(ctx, letters, chosen)
}

// page keeps what is known of dead letters, marks them and replays them.
func (r *replay) page(ctx context.Context, letters store.DeadLetters, recs []store.Record) error {
	if r.dry || len(recs) == 0 {
		return nil
	}
	marks, changes, ids := make([]pawl.Mark, len(recs)), make([]store.Edit, len(recs)), make([]string, len(recs))
	for i := range recs {
		value, err := json.Marshal(r.letter(&recs[i]))
		if err != nil {
			return err
		}
		marks[i] = pawl.Mark{Scope: r.letters(), Key: recs[i].ID, Value: value, If: pawl.AnyVersion}
		ids[i] = recs[i].ID
		headers := map[string]string{replayHeader: "true"}
		if r.keep {
			headers[keptHeader] = strconv.Itoa(recs[i].Attempts)
		}
		changes[i] = store.Edit{ID: recs[i].ID, Headers: headers}
	}
	receipts, err := r.marks.PutMarks(ctx, marks...)
	if err != nil {
		return err
	}
	for i := range receipts {
		if receipts[i].Err != nil {
			return receipts[i].Err
		}
	}
	if _, err := letters.Edit(ctx, changes...); err != nil {
		return err
	}
	at, pause := len(ids), time.Duration(0)
	if r.rate > 0 {
		at = max(int(r.rate/10), 1)
		pause = time.Duration(float64(at) / r.rate * float64(time.Second))
	}
	for part := range slices.Chunk(ids, at) {
		refused, err := letters.Replay(ctx, "", part...)
		if err != nil {
			return err
		}
		r.replayed += len(part) - len(refused)
		if err := store.Sleep(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

var (
	statusIn  = regexp.MustCompile(`HTTP ([0-9]{3})`)
	typeIn    = regexp.MustCompile(`\[([a-z0-9_]+)\]`)
	requestIn = regexp.MustCompile(`request ([0-9a-f-]{36})`)
)

func first(re *regexp.Regexp, s string) any {
	if m := re.FindStringSubmatch(s); m != nil {
		return m[1]
	}
	return nil
}

// letter is a dead letter as the view dead_letter_outbox shows it after it was replayed.
func (r *replay) letter(rec *store.Record) map[string]any {
	v := map[string]any{
		"projection": r.projection.projection, "payload": string(rec.Body), "error_class": classOf(rec.Kind),
		"error_message": cut(rec.Reason, 2000),
		"http_status":   nil, "es_error_type": first(typeIn, rec.Reason), "request_id": first(requestIn, rec.Reason),
		"attempts":        rec.Attempts,
		"first_failed_at": rec.DeadAt, "last_failed_at": rec.DeadAt, "created_at": rec.EnqueuedAt,
		"last_lease_until": rec.DeadAt, "last_owner": nil,
		"trace_id": nil, "replay_count": rec.Replays + 1, "resolved_at": nil, "resolved_by": r.who,
		"doc_id": string(rec.Key),
		"op":     rec.Headers[OutboxOp], "version": nil,
	}
	if s, ok := first(statusIn, rec.Reason).(string); ok {
		v["http_status"], _ = strconv.Atoi(s)
	}
	if trace := rec.Headers[OutboxTrace]; trace != "" {
		v["trace_id"] = trace
	}
	if version, err := strconv.ParseInt(rec.Headers[OutboxVersion], 10, 64); err == nil {
		v["version"] = version
	}
	if n := len(rec.History); n > 0 {
		v["first_failed_at"], v["last_owner"] = rec.History[0].EndedAt, rec.History[n-1].Worker
	}
	return v
}

func cut(s string, n int) string {
	r := []rune(s)
	return string(r[:min(len(r), n)])
}

// reclaim gives changes back that are stuck, or that were held for longer than that.
func (p *projection) reclaim(ctx context.Context, than time.Duration, dry bool) (n int, err error) {
	looker, ok := store.As[store.Inspector](p.store)
	if !ok {
		return 0, errors.New("the store cannot list its messages")
	}
	now, err := p.entries.Clock(ctx)
	if err != nil {
		return 0, err
	}
	var items []store.Settlement
	for rec, err := range looker.List(ctx, store.Filter{Topic: p.topic, State: store.Leased}) {
		if err != nil {
			return n, err
		}
		if rec.Lease == nil {
			continue
		}
		held := now.Sub(rec.Lease.StartedAt)
		if now.After(rec.Lease.Until) || held > p.deadline || than > 0 && held > than {
			items = append(items, store.Settlement{
				Token: rec.Lease.Token, ID: rec.ID, Verdict: store.Release,
				Failure: store.Failure{Error: "reclaimed from " + rec.Lease.Owner},
			})
		}
	}
	if dry {
		return len(items), nil
	}
	for part := range slices.Chunk(items, store.MaxBatch) {
		refused, err := p.store.Settle(ctx, store.NewBatch(part...))
		if err != nil {
			return n, err
		}
		n += len(part) - len(refused)
	}
	return n, nil
}

func (p *projection) setFlag(ctx context.Context, f flag) error {
	return pipeline.WriteState(ctx, p.entries, p.flagKey(), f, new(store.AnyVersion), f.By)
}
