package gate_test

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// A reader keeps the base as its place in the log, and the text beside it.
func Example() {
	type record struct {
		gate.Ticket
		text string
	}
	g := gate.New(8)
	var records []*record
	for pos := int64(8); pos <= 12; pos++ {
		r := &record{text: fmt.Sprint("order ", pos)}
		if g.Register(pos, &r.Ticket) == gate.Admitted {
			records = append(records, r)
		}
	}
	for _, i := range []int{2, 0, 4} { // 10, 8 and 12 are done first
		records[i].Ack()
	}
	c := g.Checkpoint(gate.Extra{Source: 42})
	base, text := c.Base, c.Text()

	// Later, in another process:
	c, err := gate.Decode(base, 42, text)
	fmt.Println(base, slices.Collect(c.Finished()), err)
	g = gate.Resume(base, c)
	for pos := base; pos <= 12; pos++ {
		fmt.Println(pos, g.Register(pos, new(gate.Ticket)))
	}
	// Output:
	// 9 [10 12] <nil>
	// 9 admitted
	// 10 finished
	// 11 admitted
	// 12 finished
}
