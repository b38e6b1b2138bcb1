// Package sim is a simulator of the customer-service API of WeCom, for demonstrations and tests: callbacks that are
// encrypted and signed, sync_msg, send_msg, the access token, and what goes wrong with them.
//
// Which of its answers are documented, and which are guesses, is in docs/pipelines/wecom.md.
package sim
