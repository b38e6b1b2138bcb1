package api

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// sees reports whether the caller may see an operation.
func (c *caller) sees(o *operate.Operation) bool {
	return !c.narrowed() || o.Filter.Topic != "" && c.over(o.Filter.Topic) ||
		len(o.From) > 0 && !slices.ContainsFunc(o.From, func(t string) bool { return !c.over(t) })
}

func (x *exchange) listOperations(ctx context.Context, part operate.Part) (p operate.Page[operate.OperationState],
	err error) {
	q := &query{exchange: x}
	status := q.status()
	if q.err != nil {
		return p, q.err
	}
	ops, err := operate.OpenOperations(x.api.store)
	if err != nil {
		return p, err
	}
	found, now, err := ops.List(ctx, part, func(o *operate.Operation) bool {
		return (status == "" || o.Status == status) && x.caller.sees(o)
	})
	p.Items, p.Next, p.Looked = []operate.OperationState{}, found.Next, found.Looked
	for _, o := range found.Items {
		p.Items = append(p.Items, operate.OperationState{Operation: o, Live: o.Live(now)})
	}
	return p, err
}

// operation is the operation of a path.
func (x *exchange) operation(ctx context.Context) (*operate.Operations, *operate.Operation, error) {
	ops, err := operate.OpenOperations(x.api.store)
	if err != nil {
		return nil, nil, err
	}
	o, err := ops.Get(ctx, x.r.PathValue("id"))
	if err == nil && !x.caller.sees(o) {
		err = forbidden("the operation is about other topics")
	}
	return ops, o, err
}

func (x *exchange) operationState(ctx context.Context) (any, error) {
	ops, o, err := x.operation(ctx)
	if err != nil {
		return nil, err
	}
	now, err := ops.State.Clock(ctx)
	return operate.OperationState{Operation: o, Live: o.Live(now)}, err
}

func (x *exchange) listAudit(ctx context.Context, part operate.Part) (p operate.Page[operate.AuditEntry], err error) {
	q := &query{exchange: x}
	f := operate.AuditFilter{Since: q.point("since"), Action: q.text("kind")}
	if part.Newest = q.boolean("newest"); q.err != nil {
		return p, q.err
	}
	return operate.PageAudit(ctx, x.api.store, f, part)
}

// ofStore is find over the store.
func ofStore[T any](find func(context.Context, store.Store) ([]T, error)) func(*exchange, context.Context) ([]T,
	error) {
	return func(x *exchange, ctx context.Context) ([]T, error) { return find(ctx, x.api.store) }
}

// noRoom is the answer where a program has nothing of the kind beside its store.
var noRoom = notFound("this program does not show that")

func (x *exchange) stores(context.Context) (any, error) {
	if do := x.api.config.Rooms.Stores; do != nil {
		return do(), nil
	}
	return nil, noRoom
}

func (x *exchange) listPolicy(context.Context) (any, error) {
	if do := x.api.config.Rooms.PolicyLs; do != nil {
		return do()
	}
	return nil, noRoom
}

func (x *exchange) doctor(ctx context.Context) (any, error) {
	if do := x.api.config.Rooms.Doctor; do != nil {
		return do(ctx)
	}
	return nil, noRoom
}

func (x *exchange) explainPolicy(context.Context) (any, error) {
	q := &query{exchange: x}
	f := operate.Failure{Attempt: q.number("attempt", 1, math.MaxInt32), Kind: pawl.Kind(q.text("kind")),
		Permanent: q.boolean("permanent"),
		Event:     policy.Event{Domain: q.text("domain"), Type: q.text("type"), Phase: q.text("phase")}}
	if q.text("retry_after") != "" {
		f.After = new(q.duration("retry_after"))
	}
	for name := range strings.FieldsFuncSeq(q.text("facts"), func(r rune) bool { return r == ',' }) {
		fact := operate.Fact(name)
		if f.Facts |= fact; fact == 0 {
			q.bad("facts", "has "+name+", which is none")
		}
	}
	if q.err != nil {
		return nil, q.err
	}
	if do := x.api.config.Rooms.PolicyExplain; do != nil {
		return do(&f)
	}
	return nil, noRoom
}
