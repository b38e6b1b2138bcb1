package send_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/send"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// narrow is a store with a topic of which at most so many messages wait.
func narrow(t *testing.T, n int64) store.Store {
	t.Helper()
	s := memory.New(memory.Config{})
	if _, err := s.Declare(context.Background(), store.Declaration{Name: "t", MaxWaiting: &n}); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLinesWaitForRoom: lines for a topic that is full are sent as somebody makes room, in
// their order.
func TestLinesWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := narrow(t, 5)
		defer func() { _ = s.Close() }()
		troubles := 0
		done := make(chan send.Sent, 1)
		go func() {
			sender := send.Lines{Store: s, Topic: "t", Trouble: func(error) { troubles++ }}
			sent, err := sender.Run(context.Background(), strings.NewReader(numbered(40)))
			if err != nil {
				t.Error(err)
			}
			done <- sent
		}()
		var got []string
		for len(got) < 40 {
			time.Sleep(2 * time.Second)
			ds, err := s.Claim(context.Background(), []store.Want{{Topic: "t", Limit: 100}},
				store.Lease{For: time.Minute})
			if err != nil || len(ds) == 0 || len(ds) > 5 {
				t.Fatal(len(ds), err)
			}
			for i := range ds {
				got = append(got, ds[i].ID)
				_, err := s.Settle(context.Background(),
					store.NewBatch(store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack}))
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if sent := <-done; sent.Appended != 40 || sent.Through != 40 || troubles < 5 {
			t.Errorf("%+v, told %d times", sent, troubles)
		}
		if !slices.IsSorted(got) {
			t.Errorf("came as %q", got)
		}
	})
}

// TestLinesDoNotWaitForEver: when nobody makes room for a while, what is stored is counted,
// and the error says that the topic is full.
func TestLinesDoNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := narrow(t, 5)
		defer func() { _ = s.Close() }()
		began := time.Now()
		sender := send.Lines{Store: s, Topic: "t"}
		sent, err := sender.Run(context.Background(), strings.NewReader(numbered(8)))
		if !store.IsTopicFull(err) || sent.Appended != 5 || sent.Through != 5 || sent.Skipped != 0 {
			t.Errorf("%+v, %v", sent, err)
		}
		if took := time.Since(began); took < 4*time.Minute || took > 6*time.Minute {
			t.Errorf("it waited %v", took)
		}
	})
}
