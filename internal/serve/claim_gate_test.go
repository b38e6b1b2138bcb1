package serve

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// filled is a store with n messages in topic t, and as many in u.
func filled(t *testing.T, n int) *memory.Store {
	t.Helper()
	s := memory.New(memory.Config{})
	var ms []pawl.Message
	for range n {
		ms = append(ms, pawl.Message{Topic: "t"}, pawl.Message{Topic: "u"})
	}
	if _, err := s.Append(t.Context(), store.NewBatch(ms...)); err != nil {
		t.Fatal(err)
	}
	return s
}

func claim(t *testing.T, s store.Store, wants ...store.Want) map[string]int {
	t.Helper()
	ds, err := s.Claim(t.Context(), wants, store.Lease{For: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, d := range ds {
		got[d.Topic]++
	}
	return got
}

// behind is s with topics t and u behind one gate.
func behind(s store.Store) (*claimGate, store.Store) {
	g := &claimGate{}
	return g, newGated(s, map[string]*claimGate{"t": g, "u": g}, nil)
}

func TestEveryTopicHasItsGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		narrow, closed, room := &claimGate{}, &claimGate{}, 0
		narrow.room = func() (int, int) { return 3, 1 }
		closed.room = func() (int, int) { return room, 0 }
		s := newGated(filled(t, 100), map[string]*claimGate{"t": narrow, "u": closed}, nil)
		if got := claim(t, s, store.Want{Topic: "t", Limit: 50}, store.Want{Topic: "u", Limit: 50}); got["t"] != 3 ||
			got["u"] != 0 {
			t.Errorf("claimed %v of a topic with room for 3 and one without", got)
		}
		if got := claim(t, s, store.Want{Topic: "t", Limit: 50}, store.Want{Topic: "u", Limit: 50}); len(got) != 0 {
			t.Errorf("claimed %v at once again", got)
		}
		time.Sleep(2 * pendingFor)
		room = 50
		if got := claim(t, s, store.Want{Topic: "t", Limit: 50}, store.Want{Topic: "u", Limit: 50}); got["t"] != 3 ||
			got["u"] != 50 {
			t.Errorf("claimed %v after there was room", got)
		}
	})
}

func TestGateLetsThroughWhatThereIsRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := behind(filled(t, 100))
		room := 7
		g.room = func() (int, int) { return room, 1 }
		if got := claim(t, s, store.Want{Topic: "t", Limit: 50}); got["t"] != 7 {
			t.Errorf("claimed %v with room for 7", got)
		}
		if got := claim(t, s, store.Want{Topic: "t", Limit: 50}); len(got) != 0 {
			t.Errorf("claimed %v before the handlers of what came began", got)
		}
		for range 7 {
			g.begun()
		}
		if got := claim(t, s, store.Want{Topic: "t", Limit: 50}, store.Want{Topic: "u", Limit: 2}); got["t"] != 5 ||
			got["u"] != 2 {
			t.Errorf("claimed %v of two topics with room for 7", got)
		}
		time.Sleep(2 * pendingFor) // they never began: a drain, say
		if got := claim(t, s, store.Want{Topic: "t", Limit: 3}); got["t"] != 3 {
			t.Errorf("claimed %v of 3", got)
		}
		room = -1
		time.Sleep(2 * pendingFor)
		if got := claim(t, s, store.Want{Topic: "t", Limit: 3}); len(got) != 0 {
			t.Errorf("claimed %v without room", got)
		}
	})
}

func TestGateLooksForWhatIsMoreUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := filled(t, 10)
		g, s := behind(inner)
		g.room = func() (int, int) { return 0, 1 }
		w, ok := store.As[store.Waker](s)
		if !ok {
			t.Fatal("the gate hides that the store tells of news")
		}
		news, err := w.Listen(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := inner.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t", ID: "urgent",
			Priority: 100})); err != nil {
			t.Fatal(err)
		}
		<-news
		ds, err := s.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 5}}, store.Lease{For: time.Minute})
		if err != nil || len(ds) != 1 || ds[0].ID != "urgent" {
			t.Errorf("claimed %v, %v", ds, err)
		}
		if got := claim(t, s, store.Want{Topic: "t", Limit: 5}); len(got) != 0 {
			t.Errorf("claimed %v without room and news", got)
		}
	})
}

// TestSettledIsTold: room that replies take is given back by it.
func TestSettledIsTold(t *testing.T) {
	var told []pawl.Token
	s := newGated(filled(t, 3), nil, func(tokens ...pawl.Token) { told = append(told, tokens...) })
	ds, err := s.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 3}}, store.Lease{For: time.Minute})
	if err != nil || len(ds) == 0 {
		t.Fatal(ds, err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	b := store.NewBatch(store.Settlement{Token: ds[0].Token, ID: ds[0].ID, Verdict: store.Ack})
	if _, err := s.Settle(late, b); err == nil || len(told) > 0 {
		t.Errorf("told of %v after %v", told, err)
	}
	if _, err := s.Settle(t.Context(), b); err != nil || len(told) != 1 || told[0] != ds[0].Token {
		t.Errorf("told of %v after %v", told, err)
	}
}
