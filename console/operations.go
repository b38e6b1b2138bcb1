package console

import (
	"net/url"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
)

func operationPages() []page {
	return []page{
		{path: "/operations", file: "operations", nav: "Operations", key: "p", show: operationList},
		{path: "/operations/{id}", file: "operation", show: operationPage},
	}
}

// operation is an operation with how far it is.
type operation struct {
	operate.OperationState
	Left time.Duration // about; 0: not known
}

func formOperation(o operate.OperationState) operation {
	f := operation{OperationState: o}
	done := o.Done + o.Refused
	if o.Live && done > 0 && o.Planned > done && o.ActiveSeconds > 0 {
		f.Left = time.Duration(o.ActiveSeconds / float64(done) * float64(o.Planned-done) * float64(time.Second))
	}
	return f
}

type operationsData struct {
	Operations []operation
	Statuses   []string
	Cursor     string
	Looked     string // how many were looked at, if that was bounded
}

func operationList(v *view) (any, error) {
	var found []operate.OperationState
	header, err := v.list(&found, v.query("status", "cursor"), "/operations")
	d := operationsData{Statuses: operate.OperationStatuses(), Cursor: header.Get("Pawl-Cursor"),
		Looked: header.Get("Pawl-Looked")}
	for i := range found {
		d.Operations = append(d.Operations, formOperation(found[i]))
	}
	return d, err
}

// query is those filters of the address that are set.
func (v *view) query(names ...string) url.Values {
	q := url.Values{}
	for _, name := range names {
		if text := v.Query(name); text != "" {
			q.Set(name, text)
		}
	}
	return q
}

type operationData struct {
	operation
	Again int    // that died again since
	More  bool   // than those
	Desk  string // where they are
}

func operationPage(v *view) (any, error) {
	var o operate.OperationState
	if _, err := v.get(&o, nil, "/operations/%s", v.r.PathValue("id")); err != nil {
		return nil, err
	}
	d, q := operationData{operation: formOperation(o)}, url.Values{}
	f := &o.Operation.Filter
	for name, value := range map[string]string{"topic": f.Topic, "key": f.Key, "kind": f.Kind, "reason": f.Reason,
		"fingerprint": f.Fingerprint, "search": f.Search} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if o.Kind != operate.KindReplay || o.Done == 0 {
		return d, nil
	}
	if o.To != "" {
		q.Set("topic", o.To)
	}
	q.Set("since", o.CreatedAt.Format(time.RFC3339Nano))
	var again []operate.DeadLetter
	cursor, err := v.get(&again, q, "/dead")
	d.Again, d.More, d.Desk = len(again), cursor != "", v.URL("/dead")+"?"+q.Encode()
	return d, err
}
