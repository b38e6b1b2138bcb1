package crawl

import (
	"slices"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// eventLog keeps the types and phases of events.
type eventLog struct {
	mu  sync.Mutex
	all []string
}

func (l *eventLog) Event(e dispatch.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e.Type+" "+e.Phase)
}

// A request is one delivery, and each of its steps has events of its own.
func TestEveryStepHasEvents(t *testing.T) {
	w := newWeb(t, shop())
	o, err := sectionOptions(shopModule(w.URL + "/caf"))
	if err != nil {
		t.Fatal(err)
	}
	o.Cache, o.Depth = noCache, 0
	seeds, err := o.check()
	if err != nil {
		t.Fatal(err)
	}
	c, s, log := newCrawler("shop", "run", o, seeds), memory.New(memory.Config{}), &eventLog{}
	if err := store.Send(t.Context(), s, c.visit(seeds[0], request{})); err != nil {
		t.Fatal(err)
	}
	matrix, err := policy.NewMatrix(nil, Rules()...)
	if err != nil {
		t.Fatal(err)
	}
	d, err := dispatch.New(s, dispatch.Config{Topics: []dispatch.Topic{c.topic()}, Policy: matrix, Events: log,
		UntilEmpty: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"Download Started", "Parser Started", "MiddlewareBefore Started", "MiddlewareBefore Completed",
		"Parser Completed", "DataStore Started", "DataStore Completed", "Download Completed"}
	if !slices.Equal(log.all, want) {
		t.Errorf("the events are %q, want %q", log.all, want)
	}
}
