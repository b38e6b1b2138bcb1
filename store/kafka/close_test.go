package kafka

import (
	"sync"
	"testing"
)

// TestCloseBesideACallThatBegan: a call may be under way when the store is closed, and
// come to where something begins in the background when nothing does any more.
func TestCloseBesideACallThatBegan(t *testing.T) {
	for range 30 {
		s, err := New(Config{Brokers: []string{"127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		calls.Go(func() {
			<-s.ctx.Done() // Close is about to wait
			for range 300 {
				s.state.watch()
				s.watchState(keyTopic + rigTopic)
			}
		})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if s.background(func() { t.Error("something began after Close") }) {
			t.Error("Close let something begin")
		}
		calls.Wait()
	}
}
