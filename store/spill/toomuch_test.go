package spill

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestTooMuchIsNotSpilled: what is too much for its topic is refused, and nothing of it
// goes to the fallback store; nor does the topic count as down. Rows of an outage come
// back however full it is.
func TestTooMuchIsNotSpilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := &flaky{Store: memory.New(memory.Config{})}
		fallback := memory.New(memory.Config{})
		s := open(t, primary, fallback, Config{})
		most := int64(2)
		topics, _ := store.As[store.Topics](s)
		if _, err := topics.Declare(t.Context(), store.Declaration{Name: "orders", MaxWaiting: &most}); err != nil {
			t.Fatal(err)
		}
		m := func(key string) pawl.Message { return pawl.Message{Topic: "orders", Key: []byte(key)} }
		tooMuch := func(msgs ...pawl.Message) (n int) {
			t.Helper()
			rs, err := s.Append(t.Context(), store.NewBatch(msgs...))
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rs {
				if store.IsTopicFull(r.Err) {
					n++
				} else if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			return n
		}
		for range 20 {
			tooMuch(m("a"), m("b"), m("c"))
		}
		if _, st := stats(t, s); st.SpilledFailed+st.SpilledUnknown != 0 {
			t.Fatalf("figures %+v", st)
		}
		primary.fail(&store.Error{Op: "append", Code: store.ErrUnavailable})
		if n := tooMuch(m("d"), m("e"), m("f")); n != 0 {
			t.Fatalf("%d of a spilled call are too much", n)
		}
		primary.fail(nil)
		time.Sleep(time.Minute)
		figures, err := topics.Stats(t.Context(), "orders")
		if _, st := stats(t, s); err != nil || figures[0].Waiting != 5 || st.Compensated != 3 || st.Dead != 0 {
			t.Fatalf("%+v, %+v, %v", figures, st, err)
		}
		if n := tooMuch(m("g")); n != 1 {
			t.Fatal("the topic is not full")
		}
	})
}
