#!/bin/sh
# Answers every text. The envelope is on stdin, the answer goes to stdout; nothing is no answer.
case $PAWL_HEADERS in
*'"msg_type":"text"'*) echo '{"replies":[{"msgtype":"text","text":{"content":"Thank you, we will be with you in a moment."}}]}' ;;
esac
