package kafka

import (
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// TestSettingsChangeBesideDeliveries: what is handed out is copied, and partitions are
// looked at, while somebody changes the settings of their topic.
func TestSettingsChangeBesideDeliveries(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "b", "c")...)
	c, err := r.engine.claim([]store.Want{{Topic: rigTopic, Limit: 3}}, &store.Lease{For: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	settings := store.NewTopic(rigTopic)
	settings.Deadline = 7 * time.Minute
	var wg sync.WaitGroup
	wg.Go(func() { r.engine.heed(settings, nil) })
	for _, d := range c.deliveries() {
		if d.Topic != rigTopic {
			t.Errorf("%s is of topic %q", d.ID, d.Topic)
		}
	}
	if name := a.topic.Name; name != rigTopic {
		t.Errorf("the partition is of topic %q", name)
	}
	wg.Wait()
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	if a.topic.Deadline != settings.Deadline {
		t.Errorf("the deadline is %v", a.topic.Deadline)
	}
}
