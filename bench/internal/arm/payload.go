package arm

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// Payload is the job for systems that carry JSON.
type Payload struct {
	Index int    `json:"n"`
	Pad   string `json:"pad"`
}

// pad fills Payload to plan.PayloadBytes of JSON when the index has 6 digits.
var pad = strings.Repeat("x", plan.PayloadBytes-len(`{"n":123456,"pad":""}`))

func payload(index int) Payload { return Payload{Index: index, Pad: pad} }

// body is the job for systems that carry bytes: the index, then padding.
func body(index int) []byte {
	b := make([]byte, plan.PayloadBytes)
	binary.BigEndian.PutUint64(b, uint64(index))
	copy(b[8:], pad)
	return b
}

func bodyIndex(b []byte) (int, error) {
	if len(b) != plan.PayloadBytes {
		return 0, fmt.Errorf("read a job: %d bytes instead of %d", len(b), plan.PayloadBytes)
	}
	return int(binary.BigEndian.Uint64(b)), nil
}
