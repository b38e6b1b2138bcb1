package guide_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/events"
	"github.com/pawl-dev/pawl/observe/watch"
	"github.com/pawl-dev/pawl/store/memory"
)

func Example_observe() {
	ctx, s := context.Background(), memory.New(memory.Config{})
	send(s, pawl.Message{ID: "m1", Topic: "mail"})
	mail := pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error { return nil })
	own, err := observe.New(observe.NewRegistry())
	if err != nil {
		log.Fatal(err)
	}
	show := func(e observe.Envelope) error {
		_, err := fmt.Println(e.Type, e.Phase, e.MessageID)
		return err
	}

	registry := observe.NewRegistry()
	metrics, err := observe.New(registry)
	if err != nil {
		log.Fatal(err)
	}
	sink, err := events.New(events.Config{
		Metrics: metrics,
		Taps:    []observe.Tap{{Name: "shop", Consumer: observe.ConsumerFunc(show)}},
	})
	if err != nil {
		log.Fatal(err)
	}
	d, err := dispatch.New(s, dispatch.Config{
		Topics:     []dispatch.Topic{{Name: "mail", Handler: mail}},
		Observer:   dispatch.Observers(metrics, own),
		Events:     sink,
		UntilEmpty: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	pages, err := watch.Start(ctx, watch.Config{Store: s, Dispatcher: d, Metrics: metrics, Registry: registry})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/", pages) // /livez, /readyz, /healthz, /metrics
	if err := d.Run(ctx); err != nil {
		log.Fatal(err)
	}
	if err := sink.Close(ctx); err != nil { // what is on its way still arrives
		log.Fatal(err)
	}

	page := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	fmt.Println(strings.Contains(page.Body.String(), `pawl_deliveries_settled_total{topic="mail",verdict="ack"} 1`))
	// Output:
	// TaskModel Started m1
	// TaskModel Completed m1
	// true
}
