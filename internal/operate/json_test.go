package operate_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// An age that the store cannot tell is null, not 0.
func TestAgeThatNobodyKnowsIsNull(t *testing.T) {
	for d, want := range map[time.Duration]string{-1: "null", 0: "0", time.Second: "1"} {
		b, err := json.Marshal(operate.FormTopic(&store.TopicStats{Topic: store.NewTopic("a"), OldestWaiting: d}))
		if err != nil || !strings.Contains(string(b), `"oldest_waiting_seconds":`+want+",") {
			t.Errorf("%v: %s, %v", d, b, err)
		}
	}
}
