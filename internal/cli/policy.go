package cli

import "github.com/spf13/cobra"

func (s *session) policy() *cobra.Command {
	return noun("policy", "Show how failures are handled, and why",
		`Shows the policy: one matrix of rules decides for every failure whether the work
is repeated and after how long, whether it becomes a dead letter, and how loud
that is. Nothing else decides that, except for messages that never reach a handler:
those of kind Rescue, Parked and Skipped, which the store makes dead letters.

A failure is looked up by domain, type, phase and kind; then by domain, type and
kind; then by kind; then there is the default.`,
		s.policyLs(), s.policyExplain())
}
