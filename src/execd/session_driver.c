/* Theory of operation. The state of the shell after a run is a script that makes it again, written
 * to a descriptor of its own: nothing of it can be mistaken for output, nor the other way round. It
 * is written when the command's text has been evaluated, and in a trap if it ended in `exit` or by
 * `set -e`. Only `exec` and a death by signal leave the state as it was before.
 *
 * bash writes variables of all kinds (declare -p quotes them so that they come back as they were),
 * functions, aliases, how patterns match and the umask, but not what bash itself sets in each
 * shell. Its descriptors are moved out of the way of scripts that use low numbers. Everything of
 * ours begins with __execd_ and is left out; so is its tracing, should the command have turned that
 * on. A plain sh can write its exported variables. */
#include "execd/session_driver.h"

const char session_driver_bash[] =
	"exec 250>&5 251>&6 5>&- 6>&-\n"
	"IFS= read -r -d '' -u 4 __execd_state\n"
	"IFS= read -r -d '' -u 3 __execd_command\n"
	"exec 3<&- 4<&-\n"
	"builtin cd -- \"$1\"\n"
	"shift\n"
	"eval \"$__execd_state\" 2>/dev/null\n"
	"__execd_end() {\n"
	"	{ builtin set +vxeu; } 2>/dev/null\n"
	"	if [[ -n $__execd_done ]]; then return \"$1\"; fi\n"
	"	__execd_done=1 __execd_names=()\n"
	"	for __execd_v in \"${!a@}\" \"${!b@}\" \"${!c@}\" \"${!d@}\" \"${!e@}\" \"${!f@}\" \"${!g@}\" "
	"\"${!h@}\" \"${!i@}\" \"${!j@}\" \"${!k@}\" \"${!l@}\" \"${!m@}\" \"${!n@}\" \"${!o@}\" "
	"\"${!p@}\" \"${!q@}\" \"${!r@}\" \"${!s@}\" \"${!t@}\" \"${!u@}\" \"${!v@}\" \"${!w@}\" "
	"\"${!x@}\" \"${!y@}\" \"${!z@}\" \"${!A@}\" \"${!B@}\" \"${!C@}\" \"${!D@}\" \"${!E@}\" "
	"\"${!F@}\" \"${!G@}\" \"${!H@}\" \"${!I@}\" \"${!J@}\" \"${!K@}\" \"${!L@}\" \"${!M@}\" "
	"\"${!N@}\" \"${!O@}\" \"${!P@}\" \"${!Q@}\" \"${!R@}\" \"${!S@}\" \"${!T@}\" \"${!U@}\" "
	"\"${!V@}\" \"${!W@}\" \"${!X@}\" \"${!Y@}\" \"${!Z@}\" \"${!_@}\"; do\n"
	"		case $__execd_v in\n"
	"		__execd_*|_|BASH|BASH[OP]*|BASH_[ACELSVX]*|COMP_*|DIRSTACK|EPOCH*|EUID|FUNCNAME|"
	"GROUPS|HISTCMD|LINENO|OPTIND|PIPESTATUS|PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|"
	"UID) ;;\n"
	"		*) __execd_names+=(\"$__execd_v\") ;;\n"
	"		esac\n"
	"	done\n"
	"	{\n"
	"		if [[ ${#__execd_names[@]} -gt 0 ]]; then\n"
	"			builtin declare -p \"${__execd_names[@]}\"\n"
	"		fi\n"
	"		builtin declare -f\n"
	"		builtin declare -Fx\n"
	"		builtin alias -p\n"
	"		builtin shopt -p dotglob expand_aliases extglob failglob globstar lastpipe nocaseglob "
	"nocasematch nullglob\n"
	"		builtin umask -p\n"
	"		builtin printf '#end\\n'\n"
	"	} 2>/dev/null >&250\n"
	"	{ builtin pwd; } 2>/dev/null >&251\n"
	"	return \"$1\"\n"
	"}\n"
	"trap '{ __execd_end \"$?\"; } 2>/dev/null' EXIT\n"
	"unset __execd_state\n"
	"eval \"$__execd_command\"; { __execd_end \"$?\"; } 2>/dev/null\n";

const char session_driver_sh[] = "exec 8>&5 9>&6 5>&- 6>&-\n"
				 "cd -- \"$1\"\n"
				 "shift\n"
				 "eval \"$(cat <&4)\" 2>/dev/null\n"
				 "__execd_end() {\n"
				 "	{ set +vxeu; } 2>/dev/null\n"
				 "	if [ -n \"$__execd_done\" ]; then return \"$1\"; fi\n"
				 "	__execd_done=1\n"
				 "	{ export -p; printf '#end\\n'; } 2>/dev/null >&8\n"
				 "	{ pwd; } 2>/dev/null >&9\n"
				 "	return \"$1\"\n"
				 "}\n"
				 "trap '{ __execd_end \"$?\"; } 2>/dev/null' EXIT\n"
				 "__execd_command=$(cat <&3)\n"
				 "exec 3<&- 4<&-\n"
				 "eval \"$__execd_command\"; { __execd_end \"$?\"; } "
				 "2>/dev/null\n";
