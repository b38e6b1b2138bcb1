package app

import (
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

func TestGateLetsThroughWhatThereIsRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newGate(filled(t, 100))
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
		if got := claim(t, s, store.Want{Topic: "t", Limit: 50}, store.Want{Topic: "u", Limit: 2}); got["t"] != 5 || got["u"] != 2 {
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
		g, s := newGate(inner)
		g.room = func() (int, int) { return 0, 1 }
		w, ok := store.As[store.Waker](s)
		if !ok {
			t.Fatal("the gate hides that the store tells of news")
		}
		news, err := w.Listen(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := inner.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t", ID: "urgent", Priority: 100})); err != nil {
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

func TestGateKeepsToTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newGate(filled(t, 2000))
		g.rate = newBucket(50)
		woken := make(chan struct{}, 1000)
		g.wake = func() { woken <- struct{}{} }
		claimed := 0
		for began := time.Now(); time.Since(began) < 10*time.Second; {
			n := claim(t, s, store.Want{Topic: "t", Limit: 100})["t"]
			if claimed += n; n == 0 {
				<-woken
			}
		}
		if claimed < 490 || claimed > 515 {
			t.Errorf("%d in 10 seconds at 50 a second", claimed)
		}
	})
}

func TestGateDoesNotCountWhatDidNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newGate(memory.New(memory.Config{}))
		g.rate = newBucket(10)
		for range 20 {
			claim(t, s, store.Want{Topic: "t", Limit: 1})
		}
		if n, _ := g.rate.take(1); n != 1 {
			t.Error("claims that brought nothing used up the rate")
		}
	})
}
