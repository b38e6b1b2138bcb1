package arm

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
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

// noise pads jobs of bytes, so that no layer can compress them.
var noise = func() (b []byte) {
	rng := rand.NewPCG(plan.Seed, 1)
	for len(b) < 1<<20 {
		b = binary.BigEndian.AppendUint64(b, rng.Uint64())
	}
	return b
}()

// body is the job for systems that carry bytes: the index, then padding.
func body(index, size int) []byte {
	b := make([]byte, size)
	binary.BigEndian.PutUint64(b, uint64(index))
	copy(b[8:], noise[index*size%(len(noise)-size):])
	return b
}

// do carries out a job of bytes.
func (h Handler) do(body []byte) error {
	if len(body) < 8 {
		return fmt.Errorf("read a job: %d bytes", len(body))
	}
	h.Do(int(binary.BigEndian.Uint64(body)))
	return nil
}
