package sqlstore

import "testing"

// TestRankInSQL: what the stores say is the formula of store.Topic.Rank. That they agree
// about ranks is a sentence of the contract.
func TestRankInSQL(t *testing.T) {
	if got := Rank("at", "prio", "t.ageing"); got != "at + (100 - prio) * (t.ageing / 1000)" {
		t.Errorf("the rank is %s", got)
	}
}
