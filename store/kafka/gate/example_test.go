package gate_test

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// A reader keeps the base as its place in the log, and the text beside it.
func Example() {
	g := gate.New(8)
	for pos := int64(8); pos <= 12; pos++ {
		g.Register(pos)
	}
	for _, pos := range []int64{10, 8, 12} {
		g.Finish(pos)
	}
	c := g.Checkpoint(gate.Extra{Source: 42})
	base, text := c.Base, c.Text()

	// Later, in another process:
	c, err := gate.Decode(base, 42, text)
	fmt.Println(base, slices.Collect(c.Finished()), err)
	g = gate.Resume(base, c)
	for pos := base; pos <= 12; pos++ {
		fmt.Println(pos, g.Register(pos) == gate.Admitted)
	}
	// Output:
	// 9 [10 12] <nil>
	// 9 true
	// 10 false
	// 11 true
	// 12 false
}
