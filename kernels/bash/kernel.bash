eval "${BASH_EXECUTION_STRING#*$'\n'}"; while __osb_next; do eval "${__osb_flags:+set -$__osb_flags; }$__osb_cell"; { __osb_after "$?" "$-"; } 2>/dev/null; done; trap - EXIT; exit 0
# The Bash kernel (see kernels/PROTOCOL.md): cells are text that ends in a NUL; frames go back by printf.
#
# The first line runs all the others, which define and prepare, and then the cells. It is the first because bash
# counts the lines of a cell from the line that evaluates it: so errors name the cell's own lines.
#
# A cell runs in this very shell, so everything it sets stays. When it leaves (exit, set -e, an interrupt), the
# shell's state is written as a script and this program starts itself anew with it, in the same process. Everything
# of ours begins with __osb_; the control socket is descriptor 250, copies of 1 and 2 are 248 and 249.

# A frame; its length is below 256.
__osb_send() {
	local head
	builtin printf -v head '\\0\\0\\0\\x%02x' "${#1}"
	builtin printf "$head%s" "$1" >&250
}

__osb_fail() {
	__osb_send "{\"op\":\"error\",\"ename\":\"$1\",\"evalue\":\"$2\",\"traceback\":[\"$3\"]}"
}

# The next cell, in __osb_cell, with streams as they were in the beginning.
__osb_next() {
	IFS= read -r -d '' -u 250 __osb_cell || return
	__osb_busy=1 __osb_interrupted= __osb_count=$((__osb_count + 1))
	exec >&248 2>&249 </dev/null
}

# A cell has come to its end with status $1 and options $2, which the next one begins with.
__osb_after() {
	builtin set +efuvx
	__osb_flags=${2//[^efuvx]/} __osb_busy=
	if [[ -n $__osb_interrupted ]]; then
		__osb_fail KeyboardInterrupt interrupted interrupted
	elif [[ $1 != 0 ]]; then
		__osb_fail CommandExecError "$1" "exit status $1"
	fi
	__osb_send "{\"op\":\"done\",\"count\":$__osb_count}"
}

# The state of the shell as a script. Variables that bash itself sets in each shell are left out.
__osb_state() {
	local __osb_v __osb_names=()
	while read -r __osb_v; do
		case $__osb_v in
		__osb_*|_|BASH|BASH[OP]*|BASH_[ACELSVX]*|COMP_*|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO) ;;
		OPTIND|PIPESTATUS|PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID) ;;
		*) __osb_names+=("$__osb_v") ;;
		esac
	done < <(compgen -v)
	((${#__osb_names[@]} == 0)) || builtin declare -p "${__osb_names[@]}"
	builtin declare -f
	builtin declare -Fx
	builtin alias -p
	builtin shopt -p
	builtin umask -p
	builtin printf '__osb_count=%d __osb_flags=%s\n' "$__osb_count" "$__osb_flags"
}

# The cell has left the shell, with status $1 and options $2: tell, and go on in a new one.
__osb_exit() {
	local __osb_script
	[[ -n $__osb_busy ]] || return
	__osb_after "$1" "$2"
	__osb_script=$(__osb_state 2>/dev/null)
	exec 3<&250 250<&- 251< <(builtin printf '%s\n' "$__osb_script")
	exec "$BASH" --noprofile --norc -c "$BASH_EXECUTION_STRING" bash >&248 2>&249
}

__osb_interrupt() {
	[[ -n $__osb_busy ]] || return 0
	__osb_interrupted=1
	exit 130
}

exec 250<&3 3<&- 4<&- 248>&1 249>&2
__osb_count=0 __osb_flags= __osb_busy=
if { IFS= read -r -d '' -u 251 __osb_script || [[ -n $__osb_script ]]; } 2>/dev/null; then
	exec 251<&-
	eval "$__osb_script" 2>/dev/null
	unset __osb_script
else
	__osb_send "{\"op\":\"ready\",\"language\":\"bash\",\"version\":\"$BASH_VERSION\"}"
fi
trap __osb_interrupt INT
trap '{ __osb_exit "$?" "$-"; } 2>/dev/null' EXIT
