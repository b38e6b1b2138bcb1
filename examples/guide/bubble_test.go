package guide_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store/memory"
)

func TestRepeatedUntilItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := memory.New(memory.Config{}), time.Now()
		defer s.Close()
		send(s, pawl.Message{Topic: "mail"})

		mail := pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
			if d.Attempt < 5 {
				return errors.New("no route to host")
			}
			return nil
		})
		drain(s, dispatch.Topic{Name: "mail", Handler: mail})

		if took := time.Since(began); took > time.Hour {
			t.Errorf("five attempts took %v", took)
		}
	})
}
