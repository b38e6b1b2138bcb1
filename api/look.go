package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// deadFlags are the parameters that select dead letters.
var deadFlags = []string{"topic", "key", "kind", "reason", "fingerprint", "search", "since", "until", "attr", "resolved"}

func lookRoutes() []route {
	g := func(path, command, console, summary string, do func(*exchange) error, list bool, query ...string) route {
		return route{method: get, path: path, need: doRead, summary: summary, Command: command, Console: console, do: do,
			list: list, query: query}
	}
	return []route{
		g("/v1/topics", "topics ls", "topics", "List topics", rows((*exchange).listTopics), true),
		g("/v1/topics/{topic}", "topics show", "topic", "Show a topic", show((*exchange).showTopic), false),
		g("/v1/topics/{topic}/peek", "peek", "topic", "Look at what comes next", list((*exchange).peek), false, "limit"),
		g("/v1/messages", "messages ls", "messages", "List messages", list((*exchange).listMessages), true,
			"topic", "state", "key", "older_than", "search", "header", "unique_key"),
		g("/v1/messages/{id}", "messages show", "message", "Show a message", show((*exchange).showMessage), false),
		g("/v1/messages/{id}/explain", "explain", "message", "Say why a message is where it is",
			show((*exchange).explain), false),
		g("/v1/dead", "dead ls", "dead letters", "List dead letters", (*exchange).listDead, true,
			append(deadFlags, "group_by")...),
		g("/v1/dead/groups", "dead ls", "dead letters", "Count dead letters by cause", rows((*exchange).groupDead), true,
			append(deadFlags, "group_by")...),
		g("/v1/dead/report", "dead report", "dead letters", "Count dead letters by cause, key and day",
			show((*exchange).reportDead), false, "since", "topic"),
		g("/v1/dead/{id}", "dead show", "dead letter", "Show a dead letter", show((*exchange).showDead), false),
		g("/v1/operations", "operations ls", "operations", "List operations", parts((*exchange).listOperations), true,
			"status"),
		g("/v1/operations/{id}", "operations show", "operation", "Show an operation",
			show((*exchange).operationState), false),
		g("/v1/audit", "audit ls", "audit", "List what was changed", whole(parts((*exchange).listAudit)), true, "since",
			"kind", "newest"),
		g("/v1/workers", "workers ls", "workers", "List workers", whole(rows(ofStore(operate.Workers))), true),
		g("/v1/policy", "policy ls", "policy", "List the policy", whole(show((*exchange).listPolicy)), false),
		g("/v1/policy/explain", "policy explain", "policy", "Explain a decision", whole(show((*exchange).explainPolicy)),
			false, "domain", "type", "phase", "kind", "attempt", "facts", "permanent", "retry_after"),
		g("/v1/pipelines", "pipelines ls", "pipelines", "List pipelines", whole(rows(ofStore(operate.Pipelines))), true),
		g("/v1/schedules", "schedules ls", "schedules", "List schedules", whole(rows((*exchange).listSchedules)), true),
		g("/v1/schedules/{name}", "schedules show", "schedule", "Show a schedule", show((*exchange).showSchedule), false),
		g("/v1/schedules/{name}/next", "schedules next", "schedule", "Show the next ticks of a schedule",
			show((*exchange).nextTicks), false, "n", "from"),
		g("/v1/schedules/{name}/history", "schedules history", "schedule", "List the outcomes of its ticks",
			whole((*exchange).listRuns), true),
		g("/v1/state/{topic}", "state ls", "state", "List values that processes share", rows((*exchange).listShared),
			true, "prefix"),
		g("/v1/state/{topic}/{key}", "state get", "state", "Show a value that processes share",
			show((*exchange).showShared), false),
		g("/v1/state/{topic}/{key}/history", "state history", "state", "List the versions of a value",
			(*exchange).listVersions, true),
		g("/v1/state", "state ls", "state", "List the state", whole(parts((*exchange).listState)), true, "prefix"),
		g("/v1/doctor", "doctor", "doctor", "Look for what is wrong", whole(show((*exchange).doctor)), false),
		g("/v1/stores", "stores", "stores", "Show what stores can do", whole(show((*exchange).stores)), false),
		g("/v1/events", "(pawl up serves them at /events, too)", "events", "Follow events", whole((*exchange).events),
			false),
	}
}

// part is what a store has beside the contract.
func part[T any](x *exchange) (T, error) {
	p, ok := store.As[T](x.api.store)
	if !ok {
		return p, &store.Error{Op: x.r.Method + " " + x.r.URL.Path, Code: store.ErrUnsupported}
	}
	return p, nil
}

// show makes a handler of what finds one thing.
func show(find func(*exchange, context.Context) (any, error)) func(*exchange) error {
	return func(x *exchange) error {
		ctx, cancel := x.call()
		defer cancel()
		v, err := find(x, ctx)
		if err != nil {
			return err
		}
		return x.answer(http.StatusOK, v)
	}
}

// list makes a handler of what finds many.
func list[T any](find func(*exchange, context.Context) (iter.Seq2[T, error], error)) func(*exchange) error {
	return func(x *exchange) error {
		ctx, cancel := x.call()
		defer cancel()
		all, err := find(x, ctx)
		if err != nil {
			return err
		}
		return answerList(x, all)
	}
}

// rows is list of what is found all at once.
func rows[T any](find func(*exchange, context.Context) ([]T, error)) func(*exchange) error {
	return list(func(x *exchange, ctx context.Context) (iter.Seq2[T, error], error) {
		all, err := find(x, ctx)
		return values(all), err
	})
}

// parts is list of what the store reads in parts: its cursor says where to read on.
func parts[T any](find func(*exchange, context.Context, operate.Part) (operate.Page[T], error)) func(*exchange) error {
	return func(x *exchange) error {
		ctx, cancel := x.call()
		defer cancel()
		p, err := x.page()
		if err != nil {
			return err
		}
		found, err := find(x, ctx, operate.Part{From: int64(p.from), Limit: p.limit, Looks: operate.MostSearched})
		if err != nil {
			return err
		}
		if found.Next > 0 {
			x.w.Header().Set("Pawl-Cursor", strconv.FormatInt(found.Next, 10))
		}
		if found.Looked > 0 {
			x.w.Header().Set("Pawl-Looked", strconv.Itoa(found.Looked))
		}
		return x.answer(http.StatusOK, found.Items)
	}
}

// upTo answers with a page of a list of which up to so many are found.
func upTo[T any](x *exchange, find func(ctx context.Context, most int) ([]T, error)) error {
	ctx, cancel := x.call()
	defer cancel()
	p, err := x.page()
	if err != nil {
		return err
	}
	all, err := find(ctx, p.from+p.limit+1) // one more says that there is more
	if err != nil {
		return err
	}
	return answerList(x, values(all))
}

// whole is do, for callers that are for all topics.
func whole(do func(*exchange) error) func(*exchange) error {
	return func(x *exchange) error {
		if err := x.needWhole(); err != nil {
			return err
		}
		return do(x)
	}
}

// page is which part of a list is asked for.
type page struct{ from, limit int }

const (
	defaultPage = 100
	maxPage     = 10_000
)

func (x *exchange) page() (p page, err error) {
	q := &query{exchange: x}
	p.limit = q.number("limit", defaultPage, maxPage)
	if text := q.text("cursor"); text != "" {
		if p.from, err = strconv.Atoi(text); err != nil || p.from < 0 || p.from > math.MaxInt/2 { // more is added to it
			q.bad("cursor", "is none that was given out")
		}
	}
	return p, q.err
}

// answerList answers with a page of a list; Pawl-Cursor says where it goes on.
func answerList[T any](x *exchange, all iter.Seq2[T, error]) error {
	p, err := x.page()
	if err != nil {
		return err
	}
	items, n, held := []T{}, 0, 0
	for item, err := range all {
		if err != nil {
			return err
		}
		if n++; n <= p.from {
			continue
		}
		size := bodyOf(item)
		if len(items) == p.limit || len(items) > 0 && held+size > pageBytes {
			x.w.Header().Set("Pawl-Cursor", strconv.Itoa(p.from+len(items)))
			break
		}
		items, held = append(items, item), held+size
	}
	return x.answer(http.StatusOK, items)
}

// pageBytes is how much of bodies a page of a list has; one body is in any case. The answer is made in memory.
const pageBytes = 32 << 20

// bodyOf is how large the body of an item of a list is, if it has one.
func bodyOf(item any) int {
	switch m := item.(type) {
	case operate.Message:
		return m.BodySize()
	case operate.DeadLetter:
		return m.BodySize()
	default:
		return 0
	}
}

// values yields a slice that was read without an error.
func values[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// formed yields the JSON forms of records that the caller may see.
func formed[T any](x *exchange, records iter.Seq2[store.Record, error], form func(*store.Record) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for r, err := range records {
			if err == nil && !x.caller.over(r.Topic) {
				continue
			}
			if !yield(form(&r), err) || err != nil {
				return
			}
		}
	}
}

// topic is the topic of a path, which has to be the caller's.
func (x *exchange) topic() (string, error) {
	name := x.r.PathValue("topic")
	if err := x.needTopic(name); err != nil {
		return "", err
	}
	return name, pawl.ValidTopic(name)
}

func (x *exchange) stats(ctx context.Context, names ...string) ([]store.TopicStats, error) {
	topics, err := part[store.Topics](x)
	if err != nil {
		return nil, err
	}
	return topics.Stats(ctx, names...)
}

func (x *exchange) listTopics(ctx context.Context) ([]operate.Topic, error) {
	stats, err := x.stats(ctx)
	if err != nil {
		return nil, err
	}
	all := []operate.Topic{}
	for i := range stats {
		if x.caller.over(stats[i].Name) {
			all = append(all, operate.FormTopic(&stats[i]))
		}
	}
	return all, nil
}

func (x *exchange) showTopic(ctx context.Context) (any, error) {
	name, err := x.topic()
	if err != nil {
		return nil, err
	}
	topics, err := part[store.Topics](x)
	if err != nil {
		return nil, err
	}
	return operate.ShowTopic(ctx, x.api.store, topics, name)
}

func (x *exchange) formTopic(ctx context.Context, name string) (any, error) {
	stats, err := x.stats(ctx, name)
	if err == nil && len(stats) == 0 {
		err = notFound(fmt.Sprintf("there is no topic %q", name))
	}
	if err != nil {
		return nil, err
	}
	return operate.FormTopic(&stats[0]), nil
}

func (x *exchange) peek(ctx context.Context) (iter.Seq2[operate.Message, error], error) {
	name, err := x.topic()
	if err != nil {
		return nil, err
	}
	p, err := x.page()
	if err != nil {
		return nil, err
	}
	look, err := part[store.Inspector](x)
	if err != nil {
		return nil, err
	}
	topic := store.Topic{Name: name}
	if topics, ok := store.As[store.Topics](x.api.store); ok {
		if topic, err = topics.Topic(ctx, name); err != nil {
			return nil, err
		}
	}
	return formed(x, operate.Upcoming(ctx, look, topic, p.limit), operate.FormMessage), nil
}

func (x *exchange) listMessages(ctx context.Context) (iter.Seq2[operate.Message, error], error) {
	q := &query{exchange: x}
	f := store.Filter{Topic: q.text("topic"), State: q.state(), Key: q.key(), OlderThan: q.duration("older_than")}
	if f.Topic != "" {
		q.err = cmp.Or(q.err, x.needTopic(f.Topic))
	}
	if q.err != nil {
		return nil, q.err
	}
	search := operate.Search{Text: q.text("search"), Header: q.text("header"), UniqueKey: q.text("unique_key")}
	p, err := x.page()
	if err != nil {
		return nil, err
	}
	if f.Limit = p.from + p.limit + 1; search != (operate.Search{}) { // and one more says that there is more
		f.Limit = operate.MostSearched + 1
	} else if f.Topic == "" && x.caller.narrowed() {
		f.Limit = 0 // of those that are found, the caller sees some
	}
	look, err := part[store.Inspector](x)
	if err != nil {
		return nil, err
	}
	records := look.List(ctx, f)
	if f.State == store.IsDead {
		d, err := part[store.DeadLetters](x)
		if err != nil {
			return nil, err
		}
		records = operate.OlderThan(d.Dead(ctx, store.DeadFilter{Topic: f.Topic, Key: f.Key}), f.OlderThan, 0)
	}
	return formed(x, search.In(records, func() {
		x.w.Header().Set("Pawl-Looked", strconv.Itoa(operate.MostSearched))
	}), operate.FormMessage), nil
}

// record is the message of a path.
func (x *exchange) record(ctx context.Context) (store.Record, error) {
	look, err := part[store.Inspector](x)
	if err != nil {
		return store.Record{}, err
	}
	r, err := look.Get(ctx, x.r.PathValue("id"))
	if err == nil && !x.caller.over(r.Topic) {
		err = forbidden("the message is of another topic")
	}
	return r, err
}

func (x *exchange) showMessage(ctx context.Context) (any, error) {
	r, err := x.record(ctx)
	if err != nil {
		return nil, err
	}
	if r.State == store.IsDead {
		return operate.FormDeadLetter(&r), nil
	}
	return operate.FormDetail(&r), nil
}

func (x *exchange) explain(ctx context.Context) (any, error) {
	look, err := part[store.Inspector](x)
	if err != nil {
		return nil, err
	}
	topics, err := part[store.Topics](x)
	if err != nil {
		return nil, err
	}
	if x.caller.narrowed() {
		if _, err := x.record(ctx); err != nil {
			return nil, err
		}
	}
	e, err := operate.Explain(ctx, x.api.store, look, topics, x.r.PathValue("id"))
	if errors.Is(err, store.ErrNotFound) {
		none := func(context.Context, store.Store) (string, string) { return "", "" }
		e = operate.NotKnown(ctx, x.api.store, x.r.PathValue("id"), none)
		return nil, &Problem{Status: http.StatusNotFound, Title: "not found", Detail: e.Why, Next: e.Next.Action}
	}
	return e, err
}

func (x *exchange) listDead() error {
	if x.r.URL.Query().Get("group_by") != "" {
		return rows((*exchange).groupDead)(x)
	}
	return list((*exchange).letters)(x)
}

func (x *exchange) letters(ctx context.Context) (iter.Seq2[operate.DeadLetter, error], error) {
	f, err := (&query{exchange: x}).dead()
	if err != nil {
		return nil, err
	}
	d, err := part[store.DeadLetters](x)
	if err != nil {
		return nil, err
	}
	return formed(x, d.Dead(ctx, f), operate.FormDeadLetter), nil
}

func (x *exchange) groupDead(ctx context.Context) ([]*operate.DeadGroup, error) {
	q := &query{exchange: x}
	f, err := q.dead()
	if err != nil {
		return nil, err
	}
	if f.Topic == "" {
		if err := x.needWhole(); err != nil {
			return nil, err
		}
	}
	names, err := operate.GroupNames(cmp.Or(q.text("group_by"), "fingerprint"))
	if err != nil {
		return nil, err
	}
	d, err := part[store.DeadLetters](x)
	if err != nil {
		return nil, err
	}
	return operate.GroupDead(ctx, x.api.store, d, f, names)
}

func (x *exchange) reportDead(ctx context.Context) (any, error) {
	q := &query{exchange: x}
	f := store.DeadFilter{Topic: q.text("topic"), Since: q.point("since"), Brief: true}
	if f.Since.IsZero() {
		f.Since = time.Now().Add(-7 * 24 * time.Hour)
	}
	if f.Topic == "" {
		q.err = cmp.Or(q.err, x.needWhole())
	} else {
		q.err = cmp.Or(q.err, x.needTopic(f.Topic))
	}
	d, err := part[store.DeadLetters](x)
	if err = cmp.Or(q.err, err); err != nil {
		return nil, err
	}
	r, err := operate.ReportDead(ctx, d, f)
	return r, err
}

// letter is the dead letter of a path.
func (x *exchange) letter(ctx context.Context) (store.Record, error) {
	r, err := x.record(ctx)
	if err == nil && r.State != store.IsDead {
		err = notFound("the message is no dead letter, it is " + string(r.State))
	}
	return r, err
}

func (x *exchange) showDead(ctx context.Context) (any, error) {
	r, err := x.letter(ctx)
	if err != nil {
		return nil, err
	}
	return operate.FormDeadLetter(&r), nil
}
