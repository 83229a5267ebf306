"""Mutants: small faults put into a copy of doxa, and the test that each of them must fail.

    python -m tests.mutants [NAME …]

Each mutant replaces one text, which its file must hold exactly once. A named test passes on doxa as it is and fails on
its mutant. Prints a line per mutant; exit code 1 if one survives. `tests/test_mutants.py` keeps the texts up to date.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FAILED = 1
"""Exit code of pytest when tests ran and one failed; others mean that they could not be run."""


class Mutant(NamedTuple):
    """A fault: the text of a file that is replaced, and the test that fails for it."""

    name: str
    path: str
    before: str
    after: str
    test: str


MUTANTS = [
    Mutant("queries that do not pull their answers",
           "training/query_steps.py", "log_share.exp() - weights", "log_share.exp()",
           "training/test_queries.py::test_a_step_with_all_queries_is_the_exact_step_with_all_beliefs"),
    Mutant("entities never seen in a slot among the candidates of its queries",
           "training/query_steps.py", "errors.index_fill_(1, self._outside[slot], -torch.inf)", "pass",
           "training/test_queries.py::test_the_loss_is_the_exact_likelihood_by_full_sums"),
    Mutant("a belief regularized once for each slot",
           "training/queries.py", "(counts / len(queries)).astype", "counts.astype",
           "training/test_queries.py::test_a_step_with_all_queries_is_the_exact_step_with_all_beliefs"),
    Mutant("a mean that is a sum",
           "curation/average.py", "scale=first.pbe.scale / count", "scale=first.pbe.scale",
           "curation/test_average.py::test_the_score_is_the_mean_of_the_scores"),
    Mutant("degree counted on known facts",
           "inference/rows.py", "beliefs, model.trained_facts, options", "beliefs, model.known, options",
           "calibration/test_unseen.py::test_validation_facts_do_not_count_in_the_degree_of_a_known_entity"),
    Mutant("unseen thresholds fitted on known facts",
           "calibration/judge.py", "fit_unseen_thresholds(facts, unseen)", "fit_unseen_thresholds(known, unseen)",
           "calibration/test_unseen.py::test_validation_facts_do_not_move_the_thresholds_of_unseen_names"),
    Mutant("negatives that are test facts",
           "evaluation/report.py", "model.known.union(beliefs.positives().triples), seed", "model.known, seed",
           "evaluation/test_report.py::test_no_negative_is_another_test_belief"),
    Mutant("negatives that are other test facts",
           "evaluation/report.py", "beliefs.positives().triples), seed", "beliefs.positives().triples[:1]), seed",
           "evaluation/test_report.py::test_no_negative_is_another_test_belief"),
    Mutant("answers struck out by train alone",
           "evaluation/calibration.py", "beliefs, model.known, kind", "beliefs, model.trained_facts, kind",
           "evaluation/test_calibration.py::test_answers_known_from_train_or_valid_are_no_candidates"),
    Mutant("relevance 2^c",
           "evaluation/confidence.py", "np.expm1(relevance * np.log(2))", "np.exp(relevance * np.log(2))",
           "evaluation/test_confidence.py"
           "::test_the_relevance_of_a_tail_is_its_confidence_or_two_to_it_less_one"),
    Mutant("truths of other queries among the relation's candidates",
           "evaluation/protocol.py", "scores[:, outside] = -torch.inf", "pass",
           "evaluation/test_ranks.py"
           "::test_a_truth_outside_the_pool_of_its_relation_is_a_candidate_of_its_own_query_alone"),
    Mutant("a guess among all entities",
           "evaluation/protocol.py", "max(len(members), 1))", "ranker.entities)",
           "evaluation/test_ranks.py::test_a_guess_is_among_the_candidates_of_the_relation"),
    Mutant("a guess among all entities where no belief of the relation is seen",
           "evaluation/protocol.py", "np.unique(beliefs.relation[beliefs.relation >= 0])",
           "np.unique(beliefs.relation[seen])",
           "evaluation/test_ranks.py::test_a_guess_is_among_the_candidates_of_the_relation"),
    Mutant("frequency classes closed at their end",
           "evaluation/report.py", 'counts, side="right"', 'counts, side="left"',
           "evaluation/test_report.py::test_a_frequency_class_begins_with_its_first_number"),
    Mutant("last weights kept mid-epoch",
           "training/loop.py", "state.best_metric is None or metric >= state.best_metric:", "True:",
           "training/test_loop.py::test_a_run_that_ends_mid_epoch_returns_to_its_best_weights"),
    Mutant("best weights lost mid-epoch",
           "training/loop.py", "if partial or not state.curve", "if not state.curve",
           "training/test_loop.py::test_a_run_that_ends_mid_epoch_returns_to_its_best_weights"),
    Mutant("confidence clamped without ε",
           "training/objective.py", "clamp_min(max(settings.epsilon, 1e-6))", "clamp_min(1e-6)",
           "training/test_objective.py::test_a_confidence_below_epsilon_counts_as_epsilon"),
    Mutant("confidence clamped with ε alone",
           "training/objective.py", "clamp_min(max(settings.epsilon, 1e-6))", "clamp_min(settings.epsilon)",
           "training/test_objective.py::test_a_confidence_below_epsilon_counts_as_epsilon"),
    Mutant("known facts among the negatives of a part",
           "training/parts.py", "drawn = drawn.without_known(batch, self.known)", "pass",
           "training/test_parts.py::test_parts_heed_term_weights_confidence_and_known_facts"),
    Mutant("helping threads with torch's own",
           "training/threads.py", "        torch.set_num_threads(1)\n        while", "        while",
           "training/test_parts.py::test_a_helping_thread_lets_torch_use_one_thread"),
    Mutant("unseen thresholds lost on load",
           "calibration/judge.py", "unseen=unseen and Thresholds(", "unseen=None and Thresholds(",
           "storage/test_models.py::test_the_thresholds_of_unseen_names_come_back"),
    Mutant("unseen thresholds by kind lost on load",
           "calibration/judge.py", 'Thresholds(np.array(unseen["by_kind"], float), ',
           'Thresholds(np.full(2 * count, np.nan), ',
           "storage/test_models.py::test_the_thresholds_of_unseen_names_come_back"),
    Mutant("confidences lost on load",
           "storage/models.py", 'if "confidence" in facts else', "if False else",
           "storage/test_models.py::test_the_confidences_of_facts_come_back"),
    Mutant("confidences lost on save",
           "storage/models.py", "if len(model.known_confidence):", "if False:",
           "storage/test_models.py::test_the_confidences_of_facts_come_back"),
    Mutant("temperatures fitted with valid's answers known",
           "calibration/judge.py", "fit_temperatures(pbe, positives, facts,", "fit_temperatures(pbe, positives, known,",
           "calibration/test_judge.py"
           "::test_temperatures_are_fitted_with_the_other_answers_of_validation_among_the_candidates"),
    Mutant("a retracted validation fact stays known",
           "curation/update.py", "valid=grown.valid[kept[1]]", "valid=grown.valid",
           "curation/test_update.py::test_a_retracted_validation_fact_is_no_longer_known"),
    Mutant("an unseen head that joins no candidates",
           "pbe.py", "log_probability_of_newcomer(truth, total)))", "truth - total))",
           "test_pbe.py::test_an_entity_never_seen_as_head_joins_the_candidates_of_its_own_query_alone"),
    Mutant("pools by the larger slot",
           "calibration/candidates.py", "SIMILAR_SLOT * sizes[shared.col]", "SIMILAR_SLOT * sizes[shared.row]",
           "calibration/test_candidates.py::test_a_slot_joins_at_the_share_of_its_entities_and_not_below"),
    Mutant("pools of heads alone",
           "calibration/candidates.py", "row = 2 * relation + ENTITY_SLOTS.index(slot)", "row = 2 * relation",
           "calibration/test_candidates.py::test_pools_are_the_entities_of_similar_slots"),
    Mutant("the cost of one slot",
           "calibration/candidates.py", "return sum(len(self.of(relation, slot)) for slot in ENTITY_SLOTS)",
           "return len(self.of(relation, ENTITY_SLOTS[0]))",
           "calibration/test_candidates.py::test_pools_are_the_entities_of_similar_slots"),
    Mutant("answers that no softmax has",
           "calibration/candidates.py",
           "np.intersect1d(pools.of(relation, slot), pbe.seen[slot].numpy(), assume_unique=True)",
           "pools.of(relation, slot)",
           "calibration/test_candidates.py::test_candidates_are_the_best_answers_of_every_query"),
    Mutant("known answers among the candidates",
           "calibration/candidates.py", "pbe.distribution(slot, batch, without=without)",
           "pbe.distribution(slot, batch)",
           "calibration/test_candidates.py::test_known_facts_beyond_those_of_the_pools_are_no_candidates"),
    Mutant("candidates of one side",
           "calibration/candidates.py", "np.concatenate([part.keys for part in answers.values()])",
           "answers[Slot.TAIL].keys",
           "calibration/test_candidates.py::test_candidates_are_the_best_answers_of_every_query"),
    Mutant("ranks from zero",
           "calibration/candidates.py", "np.arange(1, answers.shape[1] + 1)", "np.arange(answers.shape[1])",
           "calibration/test_candidates.py::test_candidates_are_the_best_answers_of_every_query"),
    Mutant("one answer too many",
           "calibration/candidates.py", "topk(min(depth, distribution", "topk(min(depth + 1, distribution",
           "calibration/test_candidates.py::test_candidates_are_the_best_answers_of_every_query"),
    Mutant("unasked queries without a sum",
           "calibration/candidates.py", "if len(more):", "if False:",
           "calibration/test_candidates.py::test_candidates_about_entities_answer_queries_about_them"),
    Mutant("all queries asked",
           "calibration/candidates.py", "np.intersect1d(entities, about)", "entities",
           "calibration/test_candidates.py::test_candidates_about_entities_answer_queries_about_them"),
    Mutant("memory not passed on",
           "calibration/candidates.py", "if index is not None else pbe.entities, search.memory):",
           "if index is not None else pbe.entities):",
           "calibration/test_candidates.py::test_blocks_of_any_size_give_the_same"),
    Mutant("all validation facts hidden at once",
           "calibration/candidates.py", "without=(query[other], answer[other])", "without=(query[:0], answer[:0])",
           "calibration/test_candidates.py::test_a_hidden_fact_is_the_candidate_it_would_be_if_it_were_not_known"),
    Mutant("a hidden fact known to itself",
           "calibration/candidates.py", "known.count_answers(slot, *hidden.T) - 1",
           "known.count_answers(slot, *hidden.T)",
           "calibration/test_candidates.py::test_a_hidden_fact_is_the_candidate_it_would_be_if_it_were_not_known"),
    Mutant("hidden facts that are no candidates",
           "calibration/candidates.py", "& table.answers(pbe).any(axis=1)", "",
           "calibration/test_candidates.py::test_a_hidden_fact_is_the_candidate_it_would_be_if_it_were_not_known"),
    Mutant("hidden facts outside the pools",
           "calibration/candidates.py", "in_pools[0] & in_pools[1] &", "in_pools[0] &",
           "calibration/test_candidates.py::test_a_hidden_fact_is_the_candidate_it_would_be_if_it_were_not_known"),
    Mutant("the features of many known answers",
           "calibration/candidates.py", "np.log1p(self.known), self.known == 0", "np.log1p(self.known), self.known > 0",
           "calibration/test_candidates.py::test_features_are_logarithms_and_whether_no_answer_is_known"),
    Mutant("shares in place of odds",
           "calibration/proposals.py", "self.scale * share / (1 - share)", "self.scale * share",
           "calibration/test_proposals.py::test_credence_is_the_share_of_missing_facts"),
    Mutant("odds of the hidden candidates alone",
           "calibration/proposals.py", "scale, len(hidden))", "scale, int(right.sum()))",
           "calibration/test_proposals.py::test_credence_is_the_share_of_missing_facts"),
    Mutant("no limit to credence",
           "calibration/proposals.py", "credence = np.minimum(missing / self.count * self.odds(table), MOST)",
           "credence = missing / self.count * self.odds(table)",
           "calibration/test_proposals.py::test_more_missing_facts_raise_every_credence_in_proportion"),
    Mutant("base rate by the training facts",
           "calibration/proposals.py", "return trained * base_rate / (1 - base_rate)", "return trained * base_rate",
           "calibration/test_proposals.py::test_a_base_rate_is_a_share_of_all_facts"),
    Mutant("training facts among the hidden ones",
           "calibration/proposals.py", ".without(facts.triples)", "",
           "calibration/test_proposals.py::test_facts_of_training_among_validation_do_not_count"),
    Mutant("no ceiling",
           "calibration/proposals.py", "hopeful.relation), self.ceiling)", "hopeful.relation), 1.0)",
           "calibration/test_proposals.py::test_no_share_above_the_ceiling"),
    Mutant("the ceiling of few candidates",
           "calibration/proposals.py", "shares[min(support, len(order)) - 1 :]", "shares[0:]",
           "calibration/test_proposals.py::test_the_ceiling_is_a_share_that_enough_candidates_showed"),
    Mutant("rough odds of the sample",
           "calibration/proposals.py", "regression.intercept_[0] + np.log(len(sample) / len(others))",
           "regression.intercept_[0]",
           "calibration/test_proposals.py::test_the_rough_odds_do_not_depend_on_how_many_candidates_are_sampled"),
    Mutant("hidden facts that are not known",
           "calibration/proposals.py", "Pools(facts), facts.union(hidden.triples)", "Pools(facts), facts",
           "calibration/test_proposals.py::test_the_curve_is_fitted_to_the_candidates_and_the_hidden_facts"),
    Mutant("no sample",
           "calibration/proposals.py", "if cost + 2 * len(hidden) > queries:", "if False:",
           "calibration/test_proposals.py::test_every_candidate_is_as_likely_to_be_in_a_sample"),
    Mutant("candidates of two entities twice as likely in a sample",
           "calibration/proposals.py", "if about is not None:", "if False:",
           "calibration/test_proposals.py::test_every_candidate_is_as_likely_to_be_in_a_sample"),
    Mutant("odds of the sample",
           "calibration/proposals.py", "self.scale * share", "share",
           "calibration/test_proposals.py::test_a_sample_gives_the_same_credence"),
    Mutant("relations with hidden facts alone",
           "calibration/proposals.py", "range(facts.relations) if pools.cost(relation)",
           "range(facts.relations) if hidden.counts[relation]",
           "calibration/test_proposals.py::test_relations_without_hidden_facts_have_candidates_too"),
    Mutant("new relations without weights",
           "calibration/proposals.py", "weights=self.weights.grow(relations), ", "",
           "calibration/test_proposals.py::test_new_relations_use_what_was_fitted_over_all"),
    Mutant("a curve for models without validation facts",
           "calibration/judge.py", "if can_classify and held_out and effort", "if can_classify and effort",
           "calibration/test_proposals.py::test_a_judge_fits_the_curve_to_validation_beliefs_and_a_model_keeps_it"),
    Mutant("the curve of proposals lost on load",
           "calibration/judge.py", "proposals=proposals and ProposalCurve", "proposals=None and ProposalCurve",
           "calibration/test_proposals.py::test_a_stored_curve_answers_the_same"),
    Mutant("the order of ids before odds",
           "curation/complete.py", "-every.order.round(PRECISION), -every.credence",
           "-every.credence.round(0), -every.credence",
           "curation/test_complete.py::test_certain_proposals_are_ordered_by_their_odds"),
    Mutant("second answers kept",
           "curation/complete.py", "allowed &= table.known[:, column] == 0", "pass",
           "curation/test_complete.py::test_a_second_answer_is_not_proposed_where_the_relation_has_one"),
    Mutant("second answers refused everywhere",
           "curation/complete.py", "if self.single[slot][relation]:", "if True:",
           "curation/test_complete.py::test_a_second_answer_is_not_proposed_where_the_relation_has_one"),
    Mutant("gathered without the best so far",
           "curation/complete.py", "self.best = self.best.best_with(", "self.best = _Scored.empty().best_with(",
           "curation/test_complete.py::test_the_list_may_grow_past_what_is_gathered_at_a_time"),
    Mutant("resumed one relation late",
           "curation/complete.py", "self._state(fingerprint, place + 1)", "self._state(fingerprint, place + 2)",
           "curation/test_complete.py::test_a_stopped_search_goes_on_where_it_was"),
    Mutant("base rate ignored",
           "curation/complete.py", "missing_facts(len(model.trained_facts), base_rate or MISSING)",
           "missing_facts(len(model.trained_facts), MISSING)",
           "curation/test_complete.py::test_the_credence_is_that_of_the_curve_at_the_base_rate"),
    Mutant("pools of validation facts",
           "curation/complete.py", "Pools(model.trained_facts)", "Pools(model.known)",
           "curation/test_complete.py::test_the_credence_is_that_of_the_curve_at_the_base_rate"),
    Mutant("no curve for folders of earlier versions",
           "curation/complete.py", "self.curve, self._every = self._fitted()", "pass",
           "curation/test_complete.py::test_a_model_that_was_saved_without_a_curve_fits_it"),
    Mutant("base rate lost by the command",
           "cli/curation.py", "base_rate=base_rate, contradicting", "base_rate=None, contradicting",
           "cli/test_curation.py::test_complete_says_how_many_proposals_are_expected_to_be_right"),
    Mutant("a failed run discarded",
           "training/fit.py", 'senseless = isinstance(fault, UsageError) or', 'senseless = True or',
           "training/test_kept.py::test_a_worker_that_is_killed_keeps_the_run"),
    Mutant("checkpoints without a checksum",
           "training/checkpoint.py", 'if "sha256" in metadata and', "if False and",
           "training/test_loop.py::test_a_flipped_bit_of_a_checkpoint_is_refused"),
    Mutant("a checkpoint replaced before it is verified",
           "training/checkpoint.py", "                _verify(unfinished)", "                pass",
           "training/test_loop.py::test_the_checkpoint_before_stays_until_the_next_one_is_verified"),
    Mutant("litter of killed processes is foreign",
           "storage/folders.py", "|{PART.pattern}|{LITTER.pattern}", "|{PART.pattern}",
           "storage/test_folders.py::test_what_killed_processes_left_is_no_obstacle_and_goes"),
    Mutant("workspaces of killed processes stay",
           "data/atomic.py", "    sweep(folder)\n    with contextlib.ExitStack()", "    with contextlib.ExitStack()",
           "data/test_atomic.py::test_a_killed_writer_leaves_the_old_file_and_a_workspace_that_the_next_one_removes"),
    Mutant("files moved before they are on the disk",
           "data/atomic.py", "            finish(file, mode)\n            os.replace", "            os.replace",
           "data/test_atomic.py::test_files_reach_the_disk_before_they_are_moved"),
    Mutant("parts of a model under their plain names",
           "storage/folders.py", 'os.replace(file, folder / _name(part, str(listed[part]["sha256"])))',
           'os.replace(file, folder / f"{part}.{ending}")',
           "storage/test_folders.py::test_a_model_is_replaced_by_one_rename_of_the_manifest"),
    Mutant("two runs in one folder",
           "data/atomic.py", "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass",
           "training/test_kept.py::test_a_second_run_into_the_same_folder_is_refused"),
    Mutant("a run without the lock of its folder",
           "training/fit.py", "    with folders.writing(folder):\n        folders.check_content",
           "    folder.mkdir(exist_ok=True)\n    if True:\n        folders.check_content",
           "training/test_kept.py::test_a_second_run_into_the_same_folder_is_refused"),
    Mutant("stale files of an earlier review",
           "curation/review.py", "written_folder(folder, replaces=names)", "written_folder(folder)",
           "curation/test_review.py::test_the_files_of_an_earlier_review_are_replaced_at_once"),
    Mutant("files of a review moved one by one",
           "data/atomic.py", "    if _can_exchange(target, others):", "    if False:",
           "curation/test_review.py::test_the_files_of_an_earlier_review_are_replaced_at_once"),
    Mutant("a torn journal",
           "training/study.py", "            _mend(path)\n", "",
           "training/test_study.py::test_a_torn_last_line_is_removed"),
    Mutant("a trial cut short counts as finished",
           "training/tuning.py", "if result.interrupted:", "if False:",
           "training/test_study.py::test_ctrl_c_does_not_record_the_trial_under_way_as_finished"),
    Mutant("an interrupted convert leaves its file",
           "data/atomic.py", "            stack.callback(_remove, place)  # a signal may come between the two\n", "",
           "cli/test_signals.py::test_a_command_that_is_interrupted_while_it_writes_leaves_the_old_file"),
    Mutant("Ctrl-C does not end the reading of a pipe",
           "formats/packing.py", "    _let_interrupt()\n    if str(path)", "    if str(path)",
           "cli/test_signals.py::test_a_command_that_is_interrupted_while_it_writes_leaves_the_old_file"),
    Mutant("SIGTERM ends as Ctrl-C does",
           "cli/signals.py", "TERMINATED if signal.SIGTERM in received and code == INTERRUPTED else code", "code",
           "cli/test_signals.py::test_a_command_that_is_interrupted_while_it_writes_leaves_the_old_file"),
    Mutant("anonymous nodes named by chance",
           "formats/anonymous.py", 'self._names.setdefault(text, f"_:anon{self._checksum}n{len(self._names) + 1}")',
           "text",
           "formats/test_rdf.py::test_anonymous_nodes_have_the_same_names_each_time"),
    Mutant("prefixes of every block",
           "formats/rdf.py", "if number == 1:", "if len(rows) == 0 or number == 1:",
           "formats/test_rdf.py::test_an_iri_has_one_name_in_all_blocks"),
    Mutant("annotations of a block alone",
           "formats/statements.py", "            if place < count:\n", "            if True:\n",
           "formats/test_rdf.py::test_annotations_survive_the_ends_of_blocks"),
    Mutant("prefixes lost on save",
           "storage/models.py", '"prefixes": model.vocabularies.prefixes,', '"prefixes": {},',
           "formats/test_rdf.py::test_a_model_recognizes_whole_iris_and_keeps_them"),
    Mutant("files without a checksum",
           "storage/folders.py", "if entry.sha256 and thorough and", "if False and",
           "storage/test_folders.py::test_every_flipped_bit_is_refused"),
    Mutant("a manifest without a checksum",
           "storage/folders.py", "if version >= 3 and not _is_signed(content, manifest):", "if False:",
           "storage/test_folders.py::test_the_manifest_has_a_checksum_of_itself"),
    Mutant("weights that are not finite",
           "storage/models.py", "            _check_finite(weights, folder)\n", "            pass\n",
           "storage/test_folders.py::test_weights_that_are_not_finite_are_refused_by_name"),
    Mutant("modes of the writer",
           "storage/folders.py", "                    finish(file, mode)\n", "",
           "storage/test_folders.py::test_modes_follow_the_umask"),
    Mutant("waiting for a pipe in place of a manifest",
           "storage/folders.py", "if not stat.S_ISREG(os.fstat(descriptor).st_mode):", "if False:",
           "storage/test_folders.py::test_pipes_and_devices_are_refused"),
    Mutant("control characters printed as they are",
           "render/plain.py", "return CONTROL.sub(_escaped, text)", "return text",
           "cli/test_output.py::test_names_do_not_steer_the_terminal"),
    Mutant("TAB and line feed in rows on standard output",
           "cli/questions.py", 'escapes="yes" if breaks else "no"', 'escapes="no"',
           "cli/test_output.py::test_judged_rows_are_read_back"),
    Mutant("a forked process reads with the threads of its parent",
           "data/forks.py", "    if not _forked:\n", "    if True:\n",
           "faults/test_forks.py::test_a_forked_process_loads_the_model_by_itself"),
    Mutant("Parquet of few bytes and many rows",
           "formats/parquet.py", "refuse_expansion(head[\"rows\"] * SHORTEST, size, name)", "pass",
           "formats/test_parquet.py::test_few_bytes_of_many_rows_are_refused"),
    Mutant("lines of any length",
           "formats/packing.py", 'refuse_above(size, "DOXA_MAX_LINE"', 'refuse_above(0, "DOXA_MAX_LINE"',
           "formats/test_limits.py::test_a_long_line_is_refused"),
    Mutant("any number of fields",
           "formats/tsv.py", "refuse_above(int(fields[~blank].max())", "refuse_above(0",
           "formats/test_limits.py::test_a_line_of_many_fields_is_refused"),
    Mutant("memory not estimated",
           "training/limits.py", "    if total <= free:\n", "    if total <= free or entities > 10**4:\n",
           "training/test_limits.py::test_the_dimension_that_is_named_fits_and_a_larger_one_does_not"),
    Mutant("a full disk is a fault in doxa",
           "cli/app.py", "system_text(fault) or unexpected_text(fault)", "unexpected_text(fault)",
           "cli/test_signals.py::test_full_disks_and_arguments_that_are_no_text_have_sentences_of_their_own"),
    Mutant("a download without a checksum",
           "data/benchmarks.py", "if wanted and wanted != digest:", "if False:",
           "data/test_benchmarks.py::test_a_wrong_download_is_refused_and_removed"),
]  # fmt: skip


def run_tests(folder: Path, tests: list[str]) -> int:
    """The exit code of pytest on tests of a copy; nothing compiled from a mutant may outlive it."""
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *(f"tests/{test}" for test in tests)]
    return subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL).returncode


def killed(folder: Path, mutant: Mutant) -> bool:
    """Whether the named test fails on the copy with this fault."""
    path = folder / "doxa" / mutant.path
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.before) != 1:
        raise SystemExit(f"{mutant.path} holds {mutant.before!r} {text.count(mutant.before)} times; expected once")
    path.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
    try:
        return run_tests(folder, [mutant.test]) == FAILED
    finally:
        path.write_text(text, encoding="utf-8")


def main(names: list[str]) -> int:
    unknown = set(names) - {mutant.name for mutant in MUTANTS}
    if unknown:
        raise SystemExit(f"no mutant {min(unknown)!r}; expected any of: {', '.join(one.name for one in MUTANTS)}")
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for part in ("doxa", "tests"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        if run_tests(folder, list(dict.fromkeys(mutant.test for mutant in chosen))):
            raise SystemExit("the named tests must pass on doxa as it is; run them with pytest")
        survivors = 0
        for mutant in chosen:
            dead = killed(folder, mutant)
            survivors += not dead
            print(f"{'killed  ' if dead else 'SURVIVES'}  {mutant.name}  ({mutant.test.split('::')[1]})", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants killed")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
