package api

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/policy"
)

// sees reports whether the caller may see an operation.
func (c *caller) sees(o *operate.Operation) bool {
	return !c.narrowed() || o.Filter.Topic != "" && c.over(o.Filter.Topic) ||
		len(o.From) > 0 && !slices.ContainsFunc(o.From, func(t string) bool { return !c.over(t) })
}

func (x *exchange) listOperations(ctx context.Context) (iter.Seq2[operate.OperationState, error], error) {
	status := x.r.URL.Query().Get("status")
	if status != "" && !slices.Contains(operate.OperationStatuses(), status) {
		return nil, fault("status", "is one of "+strings.Join(operate.OperationStatuses(), ", "))
	}
	ops, err := operate.OpenOperations(x.api.store)
	if err != nil {
		return nil, err
	}
	all, now, err := ops.List(ctx)
	if err != nil {
		return nil, err
	}
	shown := []operate.OperationState{}
	for _, o := range all {
		if (status == "" || o.Status == status) && x.caller.sees(o) {
			o.Intent, o.Refusal, o.Filter.IDs = nil, nil, nil
			shown = append(shown, operate.OperationState{Operation: o, Live: o.Live(now)})
		}
	}
	return values(shown), nil
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

// whole calls do for a caller that is for all topics, and answers with a list.
func whole[T any](x *exchange, do func(context.Context) ([]T, error)) error {
	if err := x.needWhole(); err != nil {
		return err
	}
	ctx, cancel := x.call()
	defer cancel()
	all, err := do(ctx)
	if err != nil {
		return err
	}
	return answerList(x, values(all))
}

func (x *exchange) listAudit() error {
	q := &query{exchange: x}
	f := operate.AuditFilter{Since: q.point("since"), Action: q.text("kind")}
	newest := q.boolean("newest")
	if q.err != nil {
		return q.err
	}
	return whole(x, func(ctx context.Context) ([]operate.AuditEntry, error) {
		if newest {
			p, err := x.page()
			if err != nil {
				return nil, err
			}
			f.Limit = p.from + p.limit + 1
		}
		all, err := operate.ListAudit(ctx, x.api.store, f)
		if newest {
			slices.Reverse(all)
		}
		return all, err
	})
}

func (x *exchange) listWorkers() error {
	return whole(x, func(ctx context.Context) ([]operate.Worker, error) { return operate.Workers(ctx, x.api.store) })
}

func (x *exchange) listPipelines() error {
	return whole(x, func(ctx context.Context) ([]operate.Pipeline, error) { return operate.Pipelines(ctx, x.api.store) })
}

// room answers with what a program has beside its store.
func (x *exchange) room(has bool, get func() (any, error)) error {
	if err := x.needWhole(); err != nil {
		return err
	}
	if !has {
		return notFound("this program does not show that")
	}
	v, err := get()
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, v)
}

func (x *exchange) stores() error {
	do := x.api.config.Rooms.Stores
	return x.room(do != nil, func() (any, error) { return do(), nil })
}

func (x *exchange) listPolicy() error {
	do := x.api.config.Rooms.PolicyLs
	if m, ok := x.api.config.Policy.(*policy.Matrix); ok && do == nil {
		do = func() ([]operate.PolicyRule, error) { return operate.PolicyRules(m), nil }
	}
	return x.room(do != nil, func() (any, error) { return do() })
}

func (x *exchange) doctor() error {
	ctx, cancel := x.call()
	defer cancel()
	do := x.api.config.Rooms.Doctor
	return x.room(do != nil, func() (any, error) { return do(ctx) })
}

func (x *exchange) explainPolicy() error {
	q := &query{exchange: x}
	n := 1
	if text := q.text("attempt"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			return fault("attempt", "counts from 1")
		}
	}
	f := operate.Failure{Attempt: n, Kind: pawl.Kind(q.text("kind")), Permanent: q.boolean("permanent"),
		Event: policy.Event{Domain: q.text("domain"), Type: q.text("type"), Phase: q.text("phase")}}
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
		return q.err
	}
	do := x.api.config.Rooms.PolicyExplain
	if m, ok := x.api.config.Policy.(*policy.Matrix); ok && do == nil {
		do = func(f *operate.Failure) (operate.Decision, error) { return operate.ExplainFailure(m, f, nil), nil }
	}
	return x.room(do != nil, func() (any, error) { return do(&f) })
}
